"""What a step with Coolify needs: the slot as it was read, its lease and the client. And how long
to wait after one that failed."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from coolify.client import Coolify
from coolify.client.errors import CoolifyError
from core.clock import database_now
from core.leases import HeldLease
from slots.models import Slot

ACTOR = "controller"
# Returned by a step if the slot is to be read and advanced again at once.
AT_ONCE = timedelta()
LONGEST_PAUSE = 12  # times the shortest one


@dataclass
class SlotContext:
    slot: Slot
    lease: HeldLease
    coolify: Coolify
    actor: str = ACTOR
    # When the last observation began that the slot, as it was read, is sure to show.
    observed_at: datetime | None = None


def pause_after_error(error: CoolifyError, *, since: datetime) -> timedelta:
    """How long to wait before the next try: a quarter of the time since `since`, within bounds."""
    if error.retry_after:
        return timedelta(seconds=error.retry_after)
    shortest: timedelta = settings.COOLIFY_PROBE_PAUSE
    return max(shortest, min((database_now() - since) / 4, LONGEST_PAUSE * shortest))
