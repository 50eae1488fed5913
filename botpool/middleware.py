"""What every request passes: its correlation id, and refusals before any view sees it."""

import re
import uuid
from collections.abc import Callable
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.log import log_response

from core.correlation import HEADER, correlated

# --- Correlation -------------------------------------------------------------------------------


def new_correlation_id() -> str:
    return uuid.uuid4().hex


def acceptable(value: str) -> bool:
    """What a caller may choose itself: it ends up in logs and headers, so nothing surprising."""
    return bool(re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value))


class CorrelationMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        correlation_id = given if acceptable(given) else new_correlation_id()
        with correlated(correlation_id):
            response = self.get_response(request)
            _log_refusal(request, response)
        response[HEADER] = correlation_id
        return response


def _log_refusal(request: HttpRequest, response: HttpResponse) -> None:
    """As Django does, and instead of it: Django would do so when the id is gone."""
    if response.status_code >= 400:
        log_response(
            "%s: %s", response.reason_phrase, request.path, response=response, request=request
        )


# --- Refusals ----------------------------------------------------------------------------------

# Probes call a machine by whatever name or number they know it by.
FOR_PROBES = ("/healthz", "/readyz", "/metrics")

UNKNOWN = quote("\ufffd")  # Unicode's own stand-in for what cannot be shown


class ProbeMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info in FOR_PROBES:
            request.META["HTTP_HOST"] = str(settings.ALLOWED_HOSTS[0]).lstrip(".*") or "localhost"
        return self.get_response(request)


class NulMiddleware:
    """PostgreSQL stores no NUL and refuses to look for one, which would be our fault: 500. Who
    searches for one finds nothing. The API checks its own input, and says more about it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/"):
            return self.get_response(request)
        if "\x00" in request.path_info:
            return HttpResponseBadRequest("A NUL means nothing here.", content_type="text/plain")
        query = request.META.get("QUERY_STRING", "")
        request.META["QUERY_STRING"] = query.replace("%00", UNKNOWN)
        return self.get_response(request)
