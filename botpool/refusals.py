"""What no page can answer, refused before any page sees it."""

from collections.abc import Callable
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

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
