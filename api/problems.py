"""Errors as problem documents (RFC 9457), with messages by field."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase

CONTENT_TYPE = "application/problem+json"
Errors = Mapping[str, list[str]]


class Problem(Exception):
    """Ends the call with an error response."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Errors | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})


def problem_response(problem: Problem) -> HttpResponse:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.errors:
        body["errors"] = problem.errors
    response = JsonResponse(body, status=problem.status, content_type=CONTENT_TYPE)
    response["X-Content-Type-Options"] = (
        "nosniff"  # some responses bypass the middleware that adds it
    )
    for name, value in problem.headers.items():
        response[name] = value
    # Stops Django from logging the path: that of the Coolify webhook contains a secret.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def wrong_fields(errors: Errors) -> Problem:
    fields = ", ".join(sorted(errors))
    return Problem(422, f"The request is invalid. Check: {fields}.", errors=errors)


def errors_by_field(found: list[dict[str, Any]]) -> Errors:
    """Group pydantic's errors by the field names that the caller uses."""
    errors: dict[str, list[str]] = defaultdict(list)
    for error in found:
        source, *path = error["loc"]
        # In a body the path starts with the view's argument, which the caller does not know.
        names = path[1:] if source == "body" else path
        field = ".".join(str(name) for name in names) or str(source)
        errors[field].append(_WORDS.get(error["type"]) or _sentence(error["msg"]))
    return errors


# Replaces messages in which pydantic mentions Python or our classes.
_WORDS = {
    "model_type": "The body must be a JSON object.",
    "dict_type": "Must be a JSON object.",
}


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text if text.endswith(".") else f"{text}."


class ProblemMiddleware:
    """Turns Django's own errors under /api/ into problem documents: unknown paths, wrong methods,
    oversized bodies, unknown hosts."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/api/"):
            return self.get_response(request)
        if _length(request) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            return problem_response(too_big())
        response = self.get_response(request)
        if response.status_code < 400 or response.headers["Content-Type"] == CONTENT_TYPE:
            return response
        return problem_response(_from_response(response, request=request))


def too_big() -> Problem:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return Problem(413, f"The body is larger than {limit} bytes.")


def _length(request: HttpRequest) -> int:
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0


def _from_response(response: HttpResponse, *, request: HttpRequest) -> Problem:
    status = response.status_code
    if status == 405:
        allow = ", ".join(sorted(response.headers.get("Allow", "").split(", ")))
        detail = f"{request.method} is not allowed here. Allowed: {allow}."
        return Problem(status, detail, headers={"Allow": allow})
    return Problem(status, DETAILS.get(status, HTTPStatus(status).description))


DETAILS = {
    400: "The request is malformed.",
    404: "There is nothing at this address.",
    500: "Internal error. It is logged under the X-Correlation-Id of this response.",
    503: "The database is unavailable. Try again, with the same Idempotency-Key if you sent one.",
}
