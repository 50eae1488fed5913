"""From when on Coolify's status says something of a slot's container."""

from datetime import datetime, timedelta

from django.conf import settings

from slots.models import Slot
from slots.status import SlotStatus


def busy_since(slot: Slot) -> datetime:
    """Of a slot that was busy before its present status."""
    return slot.status_since - (slot.previous_lasted or timedelta())


def status_has_settled_at(slot: Slot) -> datetime:
    """Coolify shows `running` only some time after the container has started. Until then, `exited`
    is left over from before: if it were believed, the stop could remove the next bot's container.
    A slot that was not busy may have a container that has just started.
    """
    began = busy_since(slot) if slot.previous_status == SlotStatus.BUSY else slot.status_since
    return began + settings.STATUS_SETTLES_AFTER
