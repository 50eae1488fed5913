"""Bot tokens: a container's proof that it runs this bot, in this slot, in this epoch.

They are derived from SECRET_KEY and never stored, so there is nothing to leak from the database
and nothing to clean up: a token is worthless once the slot's epoch is over.
"""

import base64
import re
from dataclasses import dataclass
from hmac import compare_digest

from django.conf import settings
from django.utils.crypto import salted_hmac

from slots.models import Slot

_SALT = "slots.tokens"
_FORM = re.compile(r"(b(\d{1,18})\.s(\d{1,18})\.e(\d{1,18}))\.([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Which bot was given which slot, and in which epoch."""

    bot_id: int
    slot_id: int
    epoch: int


def make_bot_token(slot: Slot) -> str:
    """The token for the bot that holds this slot, as it was read."""
    if slot.assigned_bot_id is None:
        raise ValueError(f"{slot} holds no bot to make a token for")
    claim = f"b{slot.assigned_bot_id}.s{slot.pk}.e{slot.epoch}"
    return f"{claim}.{_mac(claim, secret=settings.SECRET_KEY)}"


def read_bot_token(token: str) -> Assignment | None:
    """The assignment that the token was made for; None if the token is not ours."""
    match = _FORM.fullmatch(token)
    if match is None:
        return None
    claim, bot_id, slot_id, epoch, mac = match.groups()
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    if not any(compare_digest(mac, _mac(claim, secret=secret)) for secret in secrets):
        return None
    return Assignment(bot_id=int(bot_id), slot_id=int(slot_id), epoch=int(epoch))


def _mac(claim: str, *, secret: str) -> str:
    digest = salted_hmac(_SALT, claim, secret=secret, algorithm="sha256").digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
