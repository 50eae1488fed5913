"""Verify webhooks by the Standard Webhooks specification, with the standard library only."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from botpool_client.errors import BotpoolError
from botpool_client.parsing import parse

PREFIX = "whsec_"
TOLERANCE = 5 * 60  # seconds, as the specification recommends


class InvalidWebhook(BotpoolError):
    """Not sent by Botpool, too old, or changed on its way: answer 400 and do nothing."""

    permanent = True


@dataclass(frozen=True, kw_only=True)
class StatusChange:
    """`event_id` drops duplicates, and tells which of two is later."""

    event: str
    event_id: int
    at: datetime
    bot_id: int
    correlation_id: str = ""
    platform: str
    meeting_url: str = ""
    from_status: str | None = None
    status: str
    reason: str = ""


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    *,
    secret: str | Iterable[str],
    tolerance: float = TOLERANCE,
) -> StatusChange:
    """Return what has changed, or raise InvalidWebhook.

    `body` is the request's body as it arrived. `secret` may be several, while you change them.
    """
    found = {name.lower(): value for name, value in headers.items()}
    _check_signature(found, body, secrets=[secret] if isinstance(secret, str) else list(secret))
    _check_age(found.get("webhook-timestamp", ""), tolerance=tolerance)
    try:
        return parse(StatusChange, json.loads(body))
    except ValueError as error:
        raise InvalidWebhook(f"The body is not an event of Botpool: {error}") from None


def _check_signature(headers: Mapping[str, str], body: bytes, *, secrets: list[str]) -> None:
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    content = _bytes(f"{message_id}.{timestamp}.") + body
    given = _bytes(headers.get("webhook-signature", "")).split()
    expected = [_signature(content, secret=each) for each in secrets]
    # All pairs, without stopping at a match: the time tells nothing.
    matches = [hmac.compare_digest(one, other) for one in expected for other in given]
    if not any(matches):
        raise InvalidWebhook("The signature does not match: a wrong secret, or not from Botpool.")


def _bytes(text: str) -> bytes:
    """Also of a header with lone surrogates, which then matches no signature."""
    return text.encode(errors="surrogatepass")


def _signature(content: bytes, *, secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"a webhook secret is {PREFIX} and base64") from None
    if not key:
        raise ValueError("the webhook secret is empty")
    return b"v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())


def _check_age(timestamp: str, *, tolerance: float) -> None:
    if not timestamp.isdecimal():
        raise InvalidWebhook("The timestamp is not a number.")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise InvalidWebhook(f"The timestamp is more than {tolerance:g} s away from now.")
