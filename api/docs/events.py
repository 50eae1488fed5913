"""What webhooks send, for the OpenAPI description."""

from typing import Any

from bots.status import BotStatus, Platform

_STATUS = {"type": "string", "enum": list(BotStatus.values)}

EVENT: dict[str, Any] = {
    "title": "BotStatusEvent",
    "type": "object",
    "required": ["event", "eventId", "at", "botId", "platform", "fromStatus", "status", "reason"],
    "properties": {
        "event": {"type": "string", "const": "bot.status"},
        "eventId": {"type": "integer", "description": "Higher is later."},
        "at": {"type": "string", "format": "date-time"},
        "botId": {"type": "integer"},
        "correlationId": {"type": "string"},
        "platform": {"type": "string", "enum": list(Platform.values)},
        "meetingUrl": {"type": "string"},
        "fromStatus": {"anyOf": [_STATUS, {"type": "null"}]},
        "status": _STATUS,
        "reason": {"type": "string"},
    },
    "examples": [
        {
            "event": "bot.status",
            "eventId": 42,
            "at": "2026-11-16T09:30:00.123456Z",
            "botId": 7,
            "correlationId": "order-4711",
            "platform": "zoom",
            "meetingUrl": "https://zoom.us/j/123456789",
            "fromStatus": "JOINING_CALL",
            "status": "IN_CALL",
            "reason": "Let in by the host",
        }
    ],
}

_HEADERS = {
    "webhook-id": "The same when the event is sent again.",
    "webhook-timestamp": "Seconds since 1970.",
    "webhook-signature": "By the Standard Webhooks specification, with the endpoint's secret.",
}

WEBHOOKS: dict[str, Any] = {
    "bot.status": {
        "post": {
            "operationId": "botStatusChanged",
            "summary": "A bot's status has changed",
            "tags": ["Bots"],
            "parameters": [
                {
                    "name": name,
                    "in": "header",
                    "required": True,
                    "description": text,
                    "schema": {"type": "string"},
                }
                for name, text in _HEADERS.items()
            ],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/BotStatusEvent"}}
                },
            },
            "responses": {"2XX": {"description": "The event was received."}},
        }
    }
}
