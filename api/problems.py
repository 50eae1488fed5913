"""Errors as problem documents (RFC 9457), with messages by field."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from api.rates import add_rate
from api.schemas.words import words_for

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
        kind: str = "about:blank",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.kind = kind


def problem_response(problem: Problem) -> HttpResponse:
    body: dict[str, Any] = {
        "type": problem.kind,
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


OVER_QUOTA = "urn:botpool:over-quota"
TRY_AGAIN_AFTER = 30  # seconds; when a bot ends is not known


def over_quota(detail: str) -> Problem:
    """Its type tells it from a call too many, which is also 429."""
    headers = {"Retry-After": str(TRY_AGAIN_AFTER)}
    return Problem(429, detail, headers=headers, kind=OVER_QUOTA)


MOST_ERRORS = 20
LONGEST_NAME = 100


def wrong_fields(errors: Errors) -> Problem:
    """Name a limited number of fields: the answer must not be longer than the request."""
    errors = {name[:LONGEST_NAME]: errors[name] for name in sorted(errors)[:MOST_ERRORS]}
    fields = ", ".join(errors)
    return Problem(422, f"The request is invalid. Check: {fields}.", errors=errors)


def errors_by_field(found: list[dict[str, Any]]) -> Errors:
    """Group pydantic's errors by the field names that the caller uses."""
    errors: dict[str, list[str]] = defaultdict(list)
    for error in found:
        source, *path = error["loc"]
        # In a body the path starts with the view's argument, which the caller does not know.
        names = path[1:] if source == "body" else path
        field = ".".join(str(name) for name in names) or str(source)
        errors[field].append(words_for(error))
    return errors


class ProblemMiddleware:
    """Turns Django's own errors under /api/ into problem documents: unknown paths, wrong methods,
    oversized bodies, unknown hosts. Keeps answers out of caches: they name meetings."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/api/"):
            return self.get_response(request)
        response = self._answer(request)
        response.headers.setdefault("Cache-Control", "no-store")
        add_rate(request, response)
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
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
    if status == 404:
        return not_found(request)
    return Problem(status, DETAILS.get(status, HTTPStatus(status).description))


def not_found(request: HttpRequest) -> Problem:
    """With a hint if only a slash at the end is too much."""
    path = request.path_info
    shorter = path.rstrip("/")
    hint = f" Leave out the slash at the end: {shorter}" if _is_call(path, shorter) else ""
    return Problem(404, f"{DETAILS[404]}{hint}")


def _is_call(path: str, shorter: str) -> bool:
    try:
        return path != shorter and resolve(shorter).route.startswith("api/v1/")
    except Resolver404:
        return False


DETAILS = {
    400: "The request is malformed.",
    404: "There is nothing at this address.",
    500: "Internal error. It is logged under the X-Correlation-Id of this response.",
    503: "The database is unavailable. Try again, with the same Idempotency-Key if you sent one.",
}
