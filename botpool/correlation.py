"""A request's correlation id: it runs through API, tasks and Coolify calls into every log line."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

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
        response[HEADER] = correlation_id
        return response
