"""From `stopping` to `idle`: the container is brought down, and the application replaced where
that is wanted."""

import logging
import time
from contextlib import suppress

from django.conf import settings
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.client.errors import BudgetExhausted, CoolifyError, NotFound
from core.correlation import correlated
from core.leases import HeldLease, LeaseLost, LeaseNotAcquired
from pool.controller.applications import forget_application
from pool.controller.observe import Look
from pool.controller.teardown import LONGEST, bring_down, pause_after_error
from pool.lifecycle import confirm_slot_stopped, handle_slot_error
from slots.deployment import Deployment
from slots.locks import with_status_lock
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

ACTOR = "stops"


def stop_released(look: Look | None, coolify: Coolify) -> None:
    """Take every slot that its bot has left one step closer to idle."""
    due = Slot.objects.filter(
        Q(next_try_at__isnull=True) | Q(next_try_at__lte=Now()), status=SlotStatus.STOPPING
    )
    if look is None:
        # All that can be done without one is to ask for a stop, or to ask again.
        asked_long_ago = Q(stop_asked_at__lt=Now() - settings.STOP_RETRY_AFTER)
        due = due.filter(Q(stop_attempts=0) | asked_long_ago & Q(seen_gone_since__isnull=True))
    end = time.monotonic() + LONGEST
    in_turn = due.order_by(F("next_try_at").asc(nulls_first=True), "status_since")
    for slot in in_turn.annotate(last_bot=_last_bot("bot"), story=_last_bot("bot__correlation_id")):
        if time.monotonic() > end:
            break
        with correlated(slot.story or "", bot=slot.last_bot):
            _stop_or_leave(slot, look, coolify)


def _last_bot(field: str) -> Subquery:
    """Of the bot that has left the slot: its story goes on until the slot is idle."""
    starts = Deployment.objects.filter(slot=OuterRef("pk")).order_by("-id")
    return Subquery(starts.values(field)[:1])


def _stop_or_leave(slot: Slot, look: Look | None, coolify: Coolify) -> None:
    try:
        _stop(slot, look, coolify)
    except (LeaseNotAcquired, LeaseLost) as error:
        logger.info("[Pool] %s is left to somebody else: %s", slot, error)


def _stop(slot: Slot, look: Look | None, coolify: Coolify) -> None:
    with with_status_lock(slot, tries=1) as lease:
        slot.refresh_from_db()
        if slot.status != SlotStatus.STOPPING:
            return
        try:
            gone = bring_down(slot, look=look, coolify=coolify, lease=lease, actor=ACTOR)
            if gone and slot.recreate:
                _delete_application(slot, coolify, lease)
        except CoolifyError as error:
            _try_again_later(slot, error)
            return
        if gone:
            with lease.fenced():
                confirm_slot_stopped(slot, reason="The container is gone", actor=ACTOR)
        elif slot.stop_attempts >= settings.STOP_MAX_ATTEMPTS:
            _give_up(slot)


def _delete_application(slot: Slot, coolify: Coolify, lease: HeldLease) -> None:
    """The next start makes a new one."""
    if not slot.coolify_uuid:
        return
    lease.check()
    with suppress(NotFound):
        coolify.delete_application(slot.coolify_uuid)
    forget_application(slot, reason="Application deleted, to be replaced", lease=lease, actor=ACTOR)


def _try_again_later(slot: Slot, error: CoolifyError) -> None:
    pause = pause_after_error(error, since=slot.status_since)
    Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(next_try_at=Now() + pause)
    level = logging.DEBUG if isinstance(error, BudgetExhausted) else logging.WARNING
    logger.log(level, "[Pool] %s is not stopped yet: %s", slot, error)


def _give_up(slot: Slot) -> None:
    error = f"Asked Coolify {slot.stop_attempts} times to stop the container, and it still runs"
    handle_slot_error(slot, error, actor=ACTOR)
