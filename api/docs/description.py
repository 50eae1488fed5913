"""The API's description of itself: all of its refusals beside its answers."""

from http import HTTPStatus
from typing import Any

from api.problems import CONTENT_TYPE

DESCRIPTION = """
Ask for meeting bots (Google Meet, Microsoft Teams, Zoom) and follow them to their end.

Send `Authorization: Bearer <key>`: an API key (`manage.py create_api_key NAME`), or for the calls
of bots the token in `BOT_DATA`. Every refusal is `application/problem+json`. Each answer has the
header `X-Correlation-Id`, which is also in every line of the log; send one to choose it yourself.
"""

PROBLEM = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "object",
            "description": "What is wrong, by the name of the field.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
    "examples": [
        {
            "type": "about:blank",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "The request is not valid: priority.",
            "errors": {"priority": ["Input should be less than or equal to 1000."]},
        }
    ],
}

_CONFLICTS = {"createBot", "releaseSlot"}
_RETRY_AFTER = {
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."},
}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}


def describe_problems(schema: dict[str, Any]) -> dict[str, Any]:
    schema["components"]["schemas"]["Problem"] = PROBLEM
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            for status in _refusals(operation, method=method, path=path):
                operation["responses"][str(status)] = _problem(status)
    return schema


def _refusals(operation: dict[str, Any], *, method: str, path: str) -> list[int]:
    who = [name for needed in operation.get("security", []) for name in needed]
    has_parameters = bool(operation.get("parameters")) or "requestBody" in operation
    refuses_others = method == "get"  # parameters that it does not have
    applies = {
        400: True,
        401: bool(who),
        403: "OperatorKey" in who,
        404: "{" in path,
        409: operation["operationId"] in _CONFLICTS,
        413: True,
        422: has_parameters or refuses_others,
        429: bool({"ClientKey", "OperatorKey"} & set(who)),
        500: True,
        503: True,
    }
    return [status for status, does in applies.items() if does]


def _problem(status: int) -> dict[str, Any]:
    reference = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {CONTENT_TYPE: {"schema": reference}},
        **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
    }
