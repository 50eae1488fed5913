"""The net beneath the queue: one look at all of it, every second."""

from dataclasses import dataclass

from queues.drain import drain_all
from queues.expiry import expire_waiters
from slots.models import Slot


@dataclass(frozen=True, kw_only=True)
class Swept:
    expired: list[int]
    given: list[Slot]


def sweep_queue() -> Swept:
    """Fail those whose time is up, then give every free slot to whose turn it is."""
    return Swept(expired=expire_waiters(), given=drain_all())
