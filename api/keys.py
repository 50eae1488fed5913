"""API keys: create them, use them within their rate, revoke them."""

import hashlib
import math
import secrets

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from api.webhooks.addresses import check_webhook_address
from bots.models import ApiKey
from core.sql import columns, fetch_one, instance

_PREFIX = "bp_"
_SECONDS_OF_BURST = 60
_LONGEST_NAME = 100

# Finds the key, records its use and charges the call to its rate, in one round trip. The lookup
# is by hash, so its timing reveals nothing about the key. The commit is asynchronous: a lost
# record of use does no harm.
_USE = f"""
UPDATE bots_apikey SET
    last_used_at = clock_timestamp(),
    paid_off_at = greatest(paid_off_at, clock_timestamp()) + %(cost)s * interval '1 second'
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS quick
WHERE key_hash = %(key_hash)s AND revoked_at IS NULL
    AND paid_off_at + %(cost)s * interval '1 second'
        <= clock_timestamp() + %(burst)s * interval '1 second'
RETURNING {columns(ApiKey)}
"""  # noqa: S608 (no outside input)

_WAIT = """
SELECT extract(epoch FROM paid_off_at - clock_timestamp()) + %(cost)s - %(burst)s
FROM bots_apikey WHERE key_hash = %(key_hash)s AND revoked_at IS NULL
"""


class NameIsTaken(Exception):
    """An active API key already has this name."""


class UnknownKey(Exception):
    """The key does not exist or is revoked."""


class TooManyCalls(Exception):
    """The key has used up its rate."""

    def __init__(self, *, retry_after: int) -> None:
        super().__init__(f"Too many calls with this API key; try again in {retry_after} s")
        self.retry_after = retry_after


def create_api_key(*, name: str, role: str = ApiKey.Role.CLIENT, webhook_url: str = "") -> str:
    """Create a key and return it. Only its hash is stored: it cannot be shown again."""
    if not (0 < len(name.strip()) <= _LONGEST_NAME and name.isprintable()):
        raise ValueError(f"An API key's name must have 1 to {_LONGEST_NAME} printable characters")
    key = _PREFIX + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            ApiKey.objects.create(
                name=name,
                role=ApiKey.Role(role),
                key_hash=hash_of(key),
                webhook_url=check_webhook_address(webhook_url) if webhook_url else "",
            )
    except IntegrityError:
        raise NameIsTaken(
            f"An API key named {name!r} is in use; revoke it or choose another name"
        ) from None
    return key


def revoke_api_key(key: ApiKey) -> bool:
    """Revoke the key; False if it was already revoked."""
    in_use = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True)
    return bool(in_use.update(revoked_at=Now()))


def use_api_key(key: str) -> ApiKey:
    """Return the active key and charge the call to its rate."""
    rate = settings.API_RATE_LIMIT
    call = {
        "key_hash": hash_of(key),
        "cost": 60 / rate if rate else 0,
        "burst": _SECONDS_OF_BURST,
    }
    row = fetch_one(_USE, call)
    if row is not None:
        return instance(ApiKey, row)
    wait = fetch_one(_WAIT, call)
    if wait is None:
        raise UnknownKey
    raise TooManyCalls(retry_after=max(1, math.ceil(wait[0])))


def hash_of(key: str) -> str:
    """A fast hash is enough: 256 random bits cannot be guessed."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
