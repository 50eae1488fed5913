"""advance(slot): one step for one slot, chosen by its status. Safe to repeat.

This is all that can happen to a slot on its own:

    deploying   wait for image and build place, start, wait for the deployment   (start.py)
    stopping    cancel deployments, stop, confirm that the container is gone     (stop.py)
    error       cancel what Coolify may still start, pause, stop: a few times    (stop.py)
    idle        stop a container that still calls, if Docker says that it runs   (containers/)
    any         write the description that Coolify shows, keep a deployment's log (descriptions.py,
                logs/)

A worker runs it under the slot's lease: when the slot is woken, and when the last step asked to.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import CharField, Exists, OuterRef, Q, Value
from django.db.models.functions import Cast, Concat

from coolify.shared import shared_coolify
from core.correlation import correlated
from core.jobs.jobs import ask
from core.leases import IS_HELD, HeldLease, Lease, LeaseLost
from pool.controller.containers.gone import check_idle
from pool.controller.context import AT_ONCE, SlotContext
from pool.controller.descriptions import describe
from pool.controller.logs.keep import keep_deployment_log
from pool.controller.observe import last_observation
from pool.controller.places import line_up
from pool.controller.start import deploy
from pool.controller.stop import recover, stop
from slots.locks import slot_key
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

MOST_STEPS = 20
# A slot in one of these statuses always has a next step.
TRANSIENT = (SlotStatus.DEPLOYING, SlotStatus.STOPPING)


def advance_slot(slot_id: int, lease: HeldLease) -> timedelta | None:
    """Take the steps that can be taken now. Return when to run again; None: only when woken."""
    for _ in range(MOST_STEPS):
        # Read before the slot: an observation that ends in between is not in the slot's row.
        observed_at = last_observation()
        slot = Slot.objects.filter(pk=slot_id).first()
        if slot is None:
            return None
        with correlated(slot.correlation_id, bot=slot.last_bot_id):
            try:
                context = SlotContext(slot, lease, shared_coolify(), observed_at=observed_at)
                again = advance(context)
            except LeaseLost as error:
                logger.info("[Pool] %s is left to another worker: %s", slot, error)
                # The row may still be ours although the lease expired by this host's clock. Then
                # no other worker has the slot, and it is due again.
                return AT_ONCE
        if again != AT_ONCE:
            return again
    return AT_ONCE


def advance(context: SlotContext) -> timedelta | None:
    match context.slot.status:
        case SlotStatus.DEPLOYING:
            step = deploy(context)
        case SlotStatus.STOPPING:
            step = stop(context)
        case SlotStatus.ERROR:
            step = recover(context)
        case SlotStatus.BUSY:
            line_up()  # its build place is free, and its image is warm
            step = None
        case _:
            check_idle(context)
            step = None
    if step == AT_ONCE:
        return AT_ONCE
    # Starts and stops first: these are done only once there is nothing else to do.
    later = (step, describe(context), keep_deployment_log(context))
    return min((each for each in later if each is not None), default=None)


def sweep_slots() -> list[int]:
    """Safety net: wake each slot with a next step whose job is not due, queued or running."""
    line_up()
    recovers = Q(status=SlotStatus.ERROR, recovery_attempts__lt=settings.RECOVERY_ATTEMPTS)
    job = Lease.objects.filter(key=Concat(Value("slot:"), Cast(OuterRef("pk"), CharField())))
    alive = job.filter(Q(due_at__isnull=False) | Q(asked_at__isnull=False) | IS_HELD)
    lost = Slot.objects.filter(Q(status__in=TRANSIENT) | recovers, ~Exists(alive))
    found = list(lost.values_list("pk", flat=True))
    # Asked for, not only announced: a notice may not arrive (PgBouncer).
    ask(slot_key(pk) for pk in found)
    return found
