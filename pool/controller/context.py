"""What a step with Coolify needs: the slot as it was read, its lease and the client."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from coolify.client import Coolify
from core.leases import HeldLease
from slots.models import Slot

ACTOR = "controller"
# Returned by a step if the slot is to be read and advanced again at once.
AT_ONCE = timedelta()


@dataclass
class SlotContext:
    slot: Slot
    lease: HeldLease
    coolify: Coolify
    actor: str = ACTOR
    # When the last observation began that the slot, as it was read, is sure to show.
    observed_at: datetime | None = None
