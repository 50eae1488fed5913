"""Signatures that prove a webhook's origin and age to its receiver, by the Standard Webhooks
specification.

A secret is derived from SECRET_KEY and the name and version of its owner. It is not stored, so a
copy of the database forges no webhooks.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now

from bots.webhooks import HasWebhookSecret

PREFIX = "whsec_"


def secret_of(owner: HasWebhookSecret) -> str:
    """The secret to give to the receiver."""
    return _secret(owner, version=owner.secret_version, key=settings.SECRET_KEY)


def secrets_of(owner: HasWebhookSecret, *, now: datetime) -> list[str]:
    """All secrets that sign at this time, the newest first. Those of former SECRET_KEYs sign, too,
    until they are removed from SECRET_KEY_FALLBACKS."""
    versions = [owner.secret_version]
    if owner.old_secret_until is not None and owner.old_secret_until > now:
        versions.append(owner.secret_version - 1)
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [_secret(owner, version=version, key=key) for version in versions for key in keys]


def rotate_secret(owner: HasWebhookSecret) -> str:
    """Return the new secret. The old one signs beside it for WEBHOOK_OLD_SECRET_FOR."""
    keep: timedelta = settings.WEBHOOK_OLD_SECRET_FOR
    type(owner).objects.filter(pk=owner.pk).update(  # type: ignore[attr-defined]
        secret_version=F("secret_version") + 1, old_secret_until=Now() + keep
    )
    owner.refresh_from_db()
    return secret_of(owner)


def _secret(owner: HasWebhookSecret, *, version: int, key: str) -> str:
    name = f"botpool webhook secret: {type(owner).__name__} {owner.pk} version {version}"
    return PREFIX + base64.b64encode(_mac(key.encode(), name.encode())).decode()


def signed_headers(
    body: bytes, *, message_id: str, at: datetime, secrets: Iterable[str]
) -> dict[str, str]:
    timestamp = str(int(at.timestamp()))
    content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(content, secret=each) for each in secrets),
    }


def _signature(content: bytes, *, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return "v1," + base64.b64encode(_mac(key, content)).decode()


def old_headers(body: bytes, *, at: datetime, key_hash: str) -> dict[str, str]:
    """The headers of the first version, whose secret is the hash of the API key."""
    timestamp = str(int(at.timestamp()))
    mac = _mac(key_hash.encode(), f"{timestamp}.".encode() + body).hex()
    return {"X-Botpool-Timestamp": timestamp, "X-Botpool-Signature": f"sha256={mac}"}


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, hashlib.sha256).digest()
