"""API keys: made, used within their rate, and revoked."""

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

# Finds the key, records its use and takes the call off its rate, in one round trip. A key that
# is looked up by the hash of 256 random bits gives nothing away by the time the search takes.
# The record of use is not worth waiting for the disk: hence the asynchronous commit.
_USE = f"""
UPDATE bots_apikey SET
    last_used_at = clock_timestamp(),
    paid_off_at = greatest(paid_off_at, clock_timestamp()) + %(cost)s * interval '1 second'
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS quick
WHERE key_hash = %(key_hash)s AND revoked_at IS NULL
    AND paid_off_at + %(cost)s * interval '1 second'
        <= clock_timestamp() + %(burst)s * interval '1 second'
RETURNING {columns(ApiKey)}
"""  # noqa: S608 (nothing of this comes from outside)

_WAIT = """
SELECT extract(epoch FROM paid_off_at - clock_timestamp()) + %(cost)s - %(burst)s
FROM bots_apikey WHERE key_hash = %(key_hash)s AND revoked_at IS NULL
"""


class NameIsTaken(Exception):
    """An API key of this name is in use; revoke it first or choose another name."""


class UnknownKey(Exception):
    """No key in use is this one."""


class TooManyCalls(Exception):
    """The key has used up its rate."""

    def __init__(self, *, retry_after: int) -> None:
        super().__init__(f"Too many calls with this key; try again in {retry_after} s")
        self.retry_after = retry_after


def create_api_key(*, name: str, role: str = ApiKey.Role.CLIENT, webhook_url: str = "") -> str:
    """Make a key and return it: this is the only time that it can be seen."""
    if not (0 < len(name.strip()) <= _LONGEST_NAME and name.isprintable()):
        raise ValueError(f"A key's name has 1 to {_LONGEST_NAME} characters, all printable")
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
        raise NameIsTaken(f"An API key named {name!r} is in use") from None
    return key


def revoke_api_key(key: ApiKey) -> bool:
    """Refuse the key from now on; False if that had been done before."""
    in_use = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True)
    return bool(in_use.update(revoked_at=Now()))


def use_api_key(key: str) -> ApiKey:
    """The key in use that this is, with the call counted against its rate."""
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
    """A fast hash is enough: there is no guessing 256 random bits, however fast."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
