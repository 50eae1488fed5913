"""The lease on a slot: its holder may talk to Coolify about it."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.conf import settings

from core.leases import HeldLease, Lease, holding_lease
from slots.models import Slot


@contextmanager
def with_status_lock(
    slot: Slot, ttl: timedelta | None = None, *, tries: int | None = None
) -> Iterator[HeldLease]:
    """The lease on one slot: who holds it may talk to Coolify about it."""
    with holding_lease(f"slot:{slot.pk}", ttl=ttl or settings.LOCK_TTL, tries=tries) as lease:
        yield lease


def slots_of_leases(leases: Iterable[Lease]) -> dict[str, str]:
    """The names of the slots that leases are on, by the leases' keys."""
    keys = {lease.key for lease in leases}
    numbers = [int(key[5:]) for key in keys if re.fullmatch(r"slot:[0-9]{1,18}", key)]
    names = Slot.objects.filter(pk__in=numbers).values_list("pk", "name")
    return {f"slot:{pk}": name for pk, name in names}
