"""The answer to a request that does not reach the application."""

import json
from http import HTTPStatus

from core.correlation import HEADER, current_correlation_id


class Refused(Exception):
    """Ends the request and its connection."""

    def __init__(self, status: HTTPStatus, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after  # seconds

    def answer(self) -> bytes:
        """A problem document, as the API's."""
        phrase = self.status.phrase
        problem = {"type": "about:blank", "title": phrase, "status": self.status}
        body = json.dumps({**problem, "detail": self.detail}).encode()
        lines = [
            f"HTTP/1.1 {self.status.value} {phrase}",
            "Connection: close",
            "Content-Type: application/problem+json",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *([] if self.retry_after is None else [f"Retry-After: {self.retry_after}"]),
            f"{HEADER}: {current_correlation_id()}",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body


def malformed(detail: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, detail)


def too_large(detail: str) -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
