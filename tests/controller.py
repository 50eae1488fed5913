"""What ticker and workers do about slots, in this process and one after the other."""

from collections.abc import Callable
from datetime import timedelta

from core.leases import LeaseNotAcquired
from pool.controller.advance import advance_slot
from pool.controller.observe import observe_if_due
from pool.controller.places import line_up
from slots.locks import with_status_lock
from slots.models import Slot

MOVING = ("deploying", "stopping", "error")


def tend_slots(*, look: Callable[[], object] = lambda: None) -> None:
    """Observe if that is due, then advance every slot that is not at rest. `look` is called in
    between: on a busy machine, much happens in a single round."""
    observe_if_due()
    line_up()
    for slot in Slot.objects.filter(status__in=MOVING).order_by("pk"):
        look()
        advance_one(slot)


def advance_one(slot: Slot) -> timedelta | None:
    """As a worker does; one whose lease another process holds is left alone."""
    try:
        with with_status_lock(slot, tries=1) as lease:
            return advance_slot(slot.pk, lease)
    except LeaseNotAcquired:
        return None
