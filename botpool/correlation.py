"""A request's correlation id: it runs through API, tasks and Coolify calls into every log line."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response

from coolify.correlation import correlated

HEADER = "X-Correlation-Id"


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
