"""API keys: create them, use them within their rate, revoke them."""

import hashlib
import math
import secrets

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from api.rates import WINDOW
from api.webhooks.endpoints import create_endpoint
from bots.models import ApiKey, Client
from bots.names import is_readable_name
from core.sql import columns, fetch_one, instance

_PREFIX = "bp_"
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
RETURNING {columns(ApiKey)}, EXISTS (
    SELECT FROM bots_webhookendpoint WHERE api_key_id = bots_apikey.id AND is_named
), coalesce((
    SELECT max_bots IS NOT NULL OR max_waiting IS NOT NULL FROM bots_client WHERE id = client_id
), false), extract(epoch FROM clock_timestamp() - paid_off_at)::float8 + %(burst)s
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


def _give_client(key: ApiKey) -> None:
    """For a key that the version before made."""
    key.client, _ = Client.objects.get_or_create(name=key.name)
    key.save(update_fields=["client"])


def create_api_key(
    *, name: str, role: str = ApiKey.Role.CLIENT, webhook_url: str = "", client: str = ""
) -> str:
    """Create a key and return it. Only its hash is stored: it cannot be shown again.

    It belongs to the client of this name, or of its own; a new one is made."""
    for each in (name, client or name):
        if not is_readable_name(each) or len(each) > _LONGEST_NAME:
            raise ValueError(
                f"The name of an API key or client must have 1 to {_LONGEST_NAME} printable "
                "characters"
            )
    key = _PREFIX + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            owner, _ = Client.objects.get_or_create(name=client or name)
            made = ApiKey.objects.create(
                name=name, role=ApiKey.Role(role), key_hash=hash_of(key), client=owner
            )
            if webhook_url:
                create_endpoint(made, webhook_url)
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
        "burst": WINDOW,
    }
    row = fetch_one(_USE, call)
    if row is not None:
        found = instance(ApiKey, row[:-3])
        found.has_endpoints, found.is_limited, found.seconds_left = row[-3:]
        if found.client_id is None:
            _give_client(found)
        return found
    wait = fetch_one(_WAIT, call)
    if wait is None:
        raise UnknownKey
    raise TooManyCalls(retry_after=max(1, math.ceil(wait[0])))


def hash_of(key: str) -> str:
    """A fast hash is enough: 256 random bits cannot be guessed."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
