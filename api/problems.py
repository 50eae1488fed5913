"""Every refusal is a problem (RFC 9457): JSON that says what is wrong, and with which field."""

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
    """Ends the call with a refusal."""

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
    response["X-Content-Type-Options"] = "nosniff"  # some are made before Django adds it
    for name, value in problem.headers.items():
        response[name] = value
    # Django would log each refusal with its path, and one path holds a secret.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def wrong_fields(errors: Errors) -> Problem:
    fields = ", ".join(sorted(errors))
    return Problem(422, f"The request is not valid: {fields}.", errors=errors)


def errors_by_field(found: list[dict[str, Any]]) -> Errors:
    """Pydantic's list of errors, by the name that the caller knows the field by."""
    errors: dict[str, list[str]] = defaultdict(list)
    for error in found:
        source, *path = error["loc"]
        # For a body the first part is our own name for it, which says nothing to the caller.
        names = path[1:] if source == "body" else path
        field = ".".join(str(name) for name in names) or str(source)
        errors[field].append(_WORDS.get(error["type"]) or _sentence(error["msg"]))
    return errors


# Where pydantic speaks of Python and of our own classes.
_WORDS = {
    "model_type": "The body has to be a JSON object.",
    "dict_type": "It has to be a JSON object.",
}


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text if text.endswith(".") else f"{text}."


class ProblemMiddleware:
    """Makes problems of what Django refuses by itself under /api/: unknown paths, wrong methods,
    bodies that are too big, hosts that are not ours."""

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
        detail = f"{request.method} is not possible here. Possible: {allow}."
        return Problem(status, detail, headers={"Allow": allow})
    return Problem(status, DETAILS.get(status, HTTPStatus(status).description))


DETAILS = {
    400: "The request cannot be understood.",
    404: "There is nothing under this address.",
    500: "Something went wrong here. It has been logged under the correlation id of this answer.",
    503: "The database does not answer. Try again, with the same Idempotency-Key if you sent one.",
}
