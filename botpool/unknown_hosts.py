"""What is answered to requests for a host that is not in ALLOWED_HOSTS, and written to the log."""

import logging
import threading
import time
from dataclasses import dataclass, field

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import bad_request as djangos_bad_request

from api.problems import Problem, problem_response
from core.logs import quoted

logger = logging.getLogger(__name__)

LOG_INTERVAL = 60.0  # seconds, in each process: scanners ask for hosts of all kinds
LONGEST_HOST = 100
DETAIL = (
    "This host name is not allowed here. The setting ALLOWED_HOSTS lists the names under which "
    "Botpool answers."
)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler for requests that it refuses."""
    if not isinstance(exception, DisallowedHost):
        return djangos_bad_request(request, exception)
    _note(request)
    if request.path_info.startswith("/api/"):
        return problem_response(Problem(400, DETAIL))
    response = render(request, "unknown_host.html", status=400)
    # Stops Django from logging each one.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


@dataclass
class _Log:
    lock: threading.Lock = field(default_factory=threading.Lock)
    next_line: float = 0.0
    left_out: int = 0


_log = _Log()


def _note(request: HttpRequest) -> None:
    with _log.lock:
        if time.monotonic() < _log.next_line:
            _log.left_out += 1
            return
        left_out, _log.left_out = _log.left_out, 0
        _log.next_line = time.monotonic() + LOG_INTERVAL
    host = quoted(str(request.META.get("HTTP_HOST", ""))[:LONGEST_HOST])
    more = f"; {left_out} more requests for such hosts since the last line" if left_out else ""
    logger.warning("Refused a request for the host %s, which is not in ALLOWED_HOSTS%s", host, more)
