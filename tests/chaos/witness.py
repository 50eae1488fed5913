"""`python -m tests.chaos.witness`: act on outdated data, over and over.

One runs on each node, and is frozen and cut off with it. It acts like a Botpool process that was
paused between reading and writing at the worst moment. That moment is rare, and several checks
protect against it. What a witness manages to write shows whether each check alone is enough.
"""

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import django
from django.db import Error, connection

LONGEST_WORK = 1.0  # seconds; half the lease
LONGEST_WAIT = 30.0
ACTOR = "chaos:late"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "botpool.settings")
    django.setup()
    for action in (write_under_a_lease, move_slots_late, lead_late):
        threading.Thread(target=_repeat, args=(action,), name=action.__name__).start()


def _repeat(action: Callable[[], None]) -> None:
    from core.leases import LeaseLost, LeaseNotAcquired

    while True:
        try:
            action()
        except (LeaseLost, LeaseNotAcquired):
            pass
        except Error:
            connection.close()
        time.sleep(random.uniform(0.2, 0.6))


def write_under_a_lease() -> None:
    """Write under a lease that may be lost meanwhile."""
    from django.conf import settings

    from core.leases import holding_lease

    with holding_lease("chaos:witness", ttl=settings.LOCK_TTL, tries=1) as lease:
        time.sleep(random.uniform(0.1, LONGEST_WORK))
        with lease.fenced(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO chaos_witness (fence) VALUES (%s)", [lease.fence])


def move_slots_late() -> None:
    """Move each slot from outdated data, once it has the same status in a later epoch."""
    from slots.models import Slot
    from slots.status import SlotStatus

    seen = {slot.pk: slot for slot in Slot.objects.exclude(status=SlotStatus.IDLE)}
    give_up_at = time.monotonic() + LONGEST_WAIT
    while seen and time.monotonic() < give_up_at:
        time.sleep(random.uniform(0.2, 0.6))
        now = Slot.objects.filter(pk__in=seen).values_list("pk", "status", "epoch")
        for slot_id, status, epoch in now:
            before = seen[slot_id]
            if status == before.status and epoch != before.epoch:
                del seen[slot_id]
                _note("moves of slots")
                _move(before)


def _move(seen: Any) -> None:
    from bots.moves import Outcome
    from bots.status import BotStatus
    from pool.lifecycle import confirm_slot_stopped, recover_slot, release_bot_from_slot
    from slots.status import SlotStatus

    reason = "This reason must not appear in any history"
    if seen.status == SlotStatus.STOPPING:
        confirm_slot_stopped(seen, reason=reason, actor=ACTOR)
    elif seen.status == SlotStatus.ERROR:
        recover_slot(seen, reason=reason, actor=ACTOR)
    else:
        release_bot_from_slot(seen, Outcome(BotStatus.CANCELLED, reason, ACTOR))


def lead_late() -> None:
    """Try to pull a cold image that another deployment is already pulling."""
    from django.db.models import Exists, OuterRef

    from pool.controller.images import lead
    from slots.deployment import Deployment, DeploymentStatus

    pulled = Deployment.objects.filter(
        pulling=True, image=OuterRef("image"), server_uuid=OuterRef("server_uuid")
    )
    waiting = Deployment.objects.filter(status=DeploymentStatus.WAITING_FOR_IMAGE)
    late = waiting.filter(Exists(pulled)).first()
    if late is not None:
        _note("leaders of a pull")
        lead(late)


def _note(what: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_late (what) VALUES (%s)", [what])


if __name__ == "__main__":
    main()
