"""Middleware for correlation ids, health probes, NUL characters and charsets."""

import codecs
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
    """Whether a caller's id is safe to repeat in logs and headers."""
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
    """Log it now, while the correlation id is set; Django then does not log it again."""
    if response.status_code >= 400:
        log_response(
            "%s: %s", response.reason_phrase, request.path, response=response, request=request
        )


# --- Probes, NUL characters and charsets -------------------------------------------------------

# Probes may use any host name or address, so ALLOWED_HOSTS does not apply to them.
PROBE_PATHS = ("/healthz", "/readyz", "/metrics")

REPLACEMENT = quote("\ufffd")


class ProbeMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info in PROBE_PATHS:
            request.META["HTTP_HOST"] = str(settings.ALLOWED_HOSTS[0]).lstrip(".*") or "localhost"
        return self.get_response(request)


class NulMiddleware:
    """Keep NUL characters from PostgreSQL, which rejects them: the result would be a 500.

    A search for NUL finds nothing, and no cookie of ours has one. The API validates its own input,
    with better messages.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        cookies = request.COOKIES.items()
        request.COOKIES = {name: value for name, value in cookies if "\x00" not in name + value}
        if request.path_info.startswith("/api/"):
            return self.get_response(request)
        if "\x00" in request.path_info:
            return HttpResponseBadRequest("NUL in the path.", content_type="text/plain")
        query = request.META.get("QUERY_STRING", "")
        request.META["QUERY_STRING"] = query.replace("%00", REPLACEMENT)
        return self.get_response(request)


FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class CharsetMiddleware:
    """Refuse forms that are not UTF-8, before Django reads one to check its CSRF token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        charset = (request.content_params or {}).get("charset", "utf-8")
        if request.content_type in FORMS and not _is_utf_8(charset):
            return HttpResponse("Send forms in UTF-8.", content_type="text/plain", status=415)
        return self.get_response(request)


def _is_utf_8(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name == "utf-8"
    except LookupError:
        return False
