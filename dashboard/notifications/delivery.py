"""Deliver one message to its channel, within a time limit. Runs outside any transaction, and in
threads: it makes no query."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from api.webhooks.sending import post
from api.webhooks.signatures import secrets_of, signed_headers
from dashboard.notifications.records import Message, NotificationChannel
from dashboard.notifications.sealing import CannotUnseal, unseal
from dashboard.notifications.services import WrongAddress, check_address

TIME_LIMIT = 10.0  # seconds
_COURIER = "dashboard.notifications.courier"
_PASSED_ON = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    sent: bool
    error: str = ""


def deliver(message: Message) -> Outcome:
    try:
        url = unseal(message.channel.sealed_url)
        check_address(url)  # the rules may have become stricter
    except (CannotUnseal, WrongAddress) as error:
        return Outcome(sent=False, error=str(error))
    if message.channel.kind == NotificationChannel.Kind.WEBHOOK:
        return _post(message, url)
    return run_courier(url, title=message.title, body=message.body)


def _post(message: Message, url: str) -> Outcome:
    body = json.dumps(payload(message), separators=(",", ":")).encode()
    now = datetime.now(UTC)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Botpool",
        **signed_headers(
            body,
            message_id=f"notification_{message.pk}",
            at=now,
            secrets=secrets_of(message.channel, now=now),
        ),
    }
    result = post(url, body, headers=headers)
    return Outcome(sent=result.delivered, error="" if result.delivered else result.answer)


def payload(message: Message) -> dict[str, Any]:
    return {
        "event": f"notification.{message.kind}",
        "id": message.pk,
        "title": message.title,
        "body": message.body,
        "items": message.items,
    }


def run_courier(url: str, *, title: str = "", body: str = "") -> Outcome:
    """Without a body, the address is only checked."""
    job = {
        "url": url,
        "title": title,
        "body": body,
        "home": settings.PUBLIC_URL,
        "allow_private": settings.WEBHOOK_ALLOW_PRIVATE,
    }
    try:
        done = subprocess.run(  # noqa: S603 (a fixed command; the address comes by stdin)
            [sys.executable, "-B", "-m", _COURIER],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            cwd=settings.BASE_DIR,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            check=True,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return Outcome(sent=False, error=f"It did not answer within {TIME_LIMIT:g} s.")
    except (OSError, subprocess.CalledProcessError, ValueError):
        # Its stderr could quote the address.
        return Outcome(sent=False, error="The process that sends the message failed.")
    return Outcome(sent=answer["sent"], error=answer["error"])
