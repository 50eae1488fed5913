"""The OpenAPI description, including the errors of each call."""

from http import HTTPStatus
from typing import Any

from django.conf import settings

from api.docs.events import EVENT, WEBHOOKS
from api.docs.names import with_good_names
from api.problems import CONTENT_TYPE

DESCRIPTION = """
Request meeting bots (Google Meet, Microsoft Teams, Zoom) and follow them to their end.

Send `Authorization: Bearer <key>` with an API key (`manage.py create_api_key NAME`) or, in a bot
callback, with the token from `BOT_DATA`. Every error is `application/problem+json`. Every response
has an `X-Correlation-Id` header, which also marks its log lines; send the header to set the id.
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
            "description": "Error messages by field name.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
    "examples": [
        {
            "type": "about:blank",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "The request is invalid. Check: priority.",
            "errors": {"priority": ["Must be at most 1000."]},
        }
    ],
}

TAGS = [
    {"name": "Bots", "description": "Request bots, follow them and cancel them."},
    {"name": "Pool", "description": "Slots, the queue, and how busy the pool is."},
    {"name": "Servers", "description": "Coolify's servers, for operators."},
    {"name": "Bot callbacks", "description": "Calls that bots make from their containers."},
    {"name": "Coolify", "description": "Notifications from Coolify."},
]

_REPLAYED = {
    "Idempotency-Replayed": {
        "schema": {"type": "string", "enum": ["true"]},
        "description": "Present if an earlier request with this Idempotency-Key was answered.",
    }
}
_CONFLICTS = {
    "createBot",
    "releaseSlot",
    "drainServer",
    "cordonServer",
    "planMaintenance",
    "warmImage",
}
_RETRY_AFTER = {
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."},
}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}


def complete(schema: dict[str, Any]) -> dict[str, Any]:
    """Add to the generated description what it lacks."""
    schema["servers"] = [
        {"url": settings.PUBLIC_URL, "description": "This Botpool"},
        {"url": "/", "description": "The host of this page"},
    ]
    schema["tags"] = TAGS
    schema["webhooks"] = WEBHOOKS
    schema["components"]["schemas"]["BotStatusEvent"] = EVENT
    _describe_problems(schema)
    _describe_headers(schema)
    return with_good_names(schema)


def _describe_headers(schema: dict[str, Any]) -> None:
    created = schema["paths"]["/api/v1/bots"]["post"]["responses"]
    for status in (200, 201):
        created[status]["headers"] = _REPLAYED


def _describe_problems(schema: dict[str, Any]) -> None:
    schema["components"]["schemas"]["Problem"] = PROBLEM
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            for status in _errors(operation, method=method, path=path):
                operation["responses"][str(status)] = _problem(status)


def _errors(operation: dict[str, Any], *, method: str, path: str) -> list[int]:
    schemes = [name for needed in operation.get("security", []) for name in needed]
    has_parameters = bool(operation.get("parameters")) or "requestBody" in operation
    refuses_unknown_parameters = method == "get"
    applies = {
        400: True,
        401: bool(schemes),
        403: "OperatorKey" in schemes,
        404: "{" in path,
        409: operation["operationId"] in _CONFLICTS,
        413: True,
        415: "requestBody" in operation and "BotToken" not in schemes,
        422: has_parameters or refuses_unknown_parameters,
        429: bool({"ClientKey", "OperatorKey"} & set(schemes)),
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
