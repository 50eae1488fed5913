"""What no page can answer, refused before any page sees it."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

# Probes call a machine by whatever name or number they know it by.
FOR_PROBES = ("/healthz", "/readyz", "/metrics")


class ProbeMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info in FOR_PROBES:
            request.META["HTTP_HOST"] = str(settings.ALLOWED_HOSTS[0]).lstrip(".*") or "localhost"
        return self.get_response(request)


class NulMiddleware:
    """PostgreSQL stores no NUL and refuses to look for one, which would be our fault: 500.
    The API checks its own input, and says more about it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/"):
            return self.get_response(request)
        if "\x00" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            return HttpResponseBadRequest("A NUL means nothing here.", content_type="text/plain")
        return self.get_response(request)
