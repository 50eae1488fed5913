"""The lease on a slot, whose holder may talk to Coolify about it; and waking a worker for it."""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta

from django.conf import settings

from core.jobs.jobs import wake
from core.leases import HeldLease, Lease, holding_lease
from slots.models import Slot


def slot_key(slot_id: int) -> str:
    return f"slot:{slot_id}"


def wake_slots(slot_ids: Iterable[int]) -> None:
    """Have workers advance these slots, once the caller's transaction commits."""
    wake(slot_key(slot_id) for slot_id in slot_ids)


def with_status_lock(
    slot: Slot, ttl: timedelta | None = None, *, tries: int | None = None
) -> AbstractContextManager[HeldLease]:
    """Hold the lease on one slot."""
    return holding_lease(slot_key(slot.pk), ttl=ttl or settings.LOCK_TTL, tries=tries)


def slots_of_leases(leases: Iterable[Lease]) -> dict[str, str]:
    """Slot names by the keys of their leases."""
    keys = {lease.key for lease in leases}
    numbers = [int(key[5:]) for key in keys if re.fullmatch(r"slot:[0-9]{1,18}", key)]
    names = Slot.objects.filter(pk__in=numbers).values_list("pk", "name")
    return {slot_key(pk): name for pk, name in names}
