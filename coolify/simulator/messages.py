"""Requests and answers, independent of HTTP: the types that all routes share."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
HTML = "text/html; charset=UTF-8"

PHRASES = {429: "Too Many Requests", 500: "Server Error", 502: "Bad Gateway"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    address: str = "127.0.0.1"
    sees_secrets: bool = False

    @property
    def wants_json(self) -> bool:
        return "json" in self.headers.get("accept", "")

    @property
    def wants_html(self) -> bool:
        return "text/html" in self.headers.get("accept", "")


@dataclass
class Answer:
    """`body` is sent as JSON or, with another `content_type`, as text.

    `delay` is in real seconds, not divided by the simulator's speed.
    """

    status: int
    body: Any = None
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0

    def encoded(self) -> bytes:
        if self.content_type == JSON:
            return json.dumps(self.body, separators=(",", ":")).encode()
        return str(self.body).encode()


class Refusal(Exception):
    """Raised to answer the request with an error."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status} {answer.body}")
        self.answer = answer


class ConnectionLost(Exception):
    """Raised to close the connection without an answer."""


def ok(body: Any) -> Answer:
    return Answer(200, body)


def refusal(status: int, message: str, **more: Any) -> Refusal:
    return Refusal(Answer(status, {"message": message, **more}))


def invalid(errors: Any) -> Refusal:
    return refusal(422, "Validation failed.", errors=errors)


def not_found(message: str) -> Refusal:
    return refusal(404, message)


def html_page(status: int) -> Answer:
    phrase = PHRASES.get(status, "Error")
    page = f"<!DOCTYPE html><html><head><title>{phrase}</title></head><body>{phrase}</body></html>"
    return Answer(status, page, HTML)
