"""Repairs: made under the slot's lease, on the slot as read inside it, through pool.lifecycle."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotFound
from coolify.client.resources import Application
from core.leases import HeldLease, LeaseLost, LeaseNotAcquired
from pool.controller.applications import forget_application
from pool.controller.belief.answers import require_gone
from pool.controller.context import SlotContext
from pool.lifecycle import (
    MoveNotAllowed,
    handle_slot_error,
    recover_slot,
    release_bot_from_slot,
)
from pool.reconciler.candidate import ACTOR, Repair, RepairResult
from slots.locks import with_status_lock
from slots.models import Slot

logger = logging.getLogger(__name__)

# Seconds. Repairs come one after the other, so one that is not answered delays all behind it.
PATIENCE = 5.0


class NothingToDo(Exception):
    """Inside the lease, the slot is no longer as the check saw it."""


def release(slot: Slot, *, reason: str) -> RepairResult:
    """End the bot, unless it has ended, and take the slot back."""
    failed = failure(reason, FailureCause.INCONSISTENT)
    with _repairing(slot) as (fresh, lease), lease.fenced():
        return _told(release_bot_from_slot(fresh, failed), "Bot ended, slot released")


def release_running(slot: Slot, *, reason: str, cause: FailureCause) -> RepairResult:
    """Release a slot whose bot is alive: it does not leave, or crashes again and again."""
    with _repairing(slot) as (fresh, lease), lease.fenced():
        done = release_bot_from_slot(fresh, failure(reason, cause))
        return _told(done, "Bot failed, slot released")


def release_silent(
    slot: Slot,
    *,
    reason: str,
    cause: FailureCause,
    heard_at: datetime | None,
    still: Callable[[], bool] | None = None,
) -> RepairResult:
    """Release a slot whose bot is silent, unless the bot has been heard since."""
    with _repairing(slot) as (fresh, lease):
        _require(still is None or still())
        with lease.fenced():
            # A heartbeat writes to this row: while it is locked, none can come in between.
            bot = Bot.objects.select_for_update(of=("self",)).filter(slot=fresh).first()
            _require(bot is not None and bot.last_heartbeat_at == heard_at)
            return _told(
                release_bot_from_slot(fresh, failure(reason, cause)), "Bot failed, slot released"
            )


def replace(slot: Slot, *, reason: str, may_place_again: Callable[[Slot], bool]) -> RepairResult:
    """Release a slot by force and replace its application.

    `may_place_again` checks once more inside the lease, and raises NothingToDo if all is well.
    """
    with _repairing(slot) as (fresh, lease), lease.fenced():
        place_again = may_place_again(fresh)
        done = handle_slot_error(
            fresh,
            reason,
            cause=FailureCause.START_TIMED_OUT,
            actor=ACTOR,
            recreate=True,
            place_again=place_again,
        )
        return _told(done, "Slot released by force; its application will be replaced")


def give_to_operator(slot: Slot, *, reason: str) -> RepairResult:
    with _repairing(slot) as (fresh, lease), lease.fenced():
        done = handle_slot_error(fresh, reason, cause=FailureCause.STOP_FAILED, actor=ACTOR)
        return _told(done, "Slot put in error")


def clear_container(slot: Slot, *, reason: str, still: Callable[[], bool]) -> RepairResult:
    """Stop what runs in an idle slot, if it still does."""
    with _repairing(slot) as (fresh, lease):
        _require(still())
        with lease.fenced():
            return _told(recover_slot(fresh, reason=reason, actor=ACTOR), "Slot is being stopped")


def forget(slot: Slot, *, reason: str, coolify: Coolify) -> RepairResult:
    with _repairing(slot) as (fresh, lease):
        _require(read_application(fresh, coolify) is None)
        forget_application(SlotContext(fresh, lease, coolify, ACTOR), reason=reason)
    return RepairResult(True, "Application forgotten; the next start creates a new one")


def failure(reason: str, cause: FailureCause) -> Outcome:
    return Outcome(BotStatus.FAILED, reason, ACTOR, cause)


def read_application(slot: Slot, coolify: Coolify) -> Application | None:
    """None is positive evidence: Coolify itself says that there is none, and is believed."""
    try:
        return coolify.application(slot.coolify_uuid, timeout=PATIENCE)
    except NotFound as error:
        if error.thing != "application":
            raise
        require_gone(coolify, slot.coolify_uuid)
        return None


def attempt(repair: Repair) -> RepairResult:
    """Make a repair. If it cannot be made, the outcome says why, and the next pass tries again."""
    try:
        return repair()
    except NothingToDo:
        return RepairResult(False, "No longer so, nothing changed")
    except (LeaseNotAcquired, LeaseLost):
        return RepairResult(False, "Another process is working on it, nothing changed")
    except CoolifyError as error:
        return RepairResult(False, f"Coolify could not be asked, nothing changed: {error}")
    except (DatabaseError, MoveNotAllowed) as error:
        # One repair that fails must not stop the others.
        logger.exception("A repair failed")
        return RepairResult(False, f"The repair failed, nothing changed: {error}")


@contextmanager
def _repairing(slot: Slot) -> Iterator[tuple[Slot, HeldLease]]:
    with with_status_lock(slot, settings.RECONCILE_LOCK_TTL, tries=1) as lease:
        fresh = Slot.objects.filter(pk=slot.pk, epoch=slot.epoch, status=slot.status).first()
        _require(fresh is not None)
        assert fresh is not None
        yield fresh, lease


def _require(so: bool) -> None:
    if not so:
        raise NothingToDo


def _told(done: bool, outcome: str) -> RepairResult:
    return RepairResult(done, outcome if done else "The slot has moved on, nothing changed")
