"""How the reconciler changes a slot: under the slot's lease, on what is read inside it, and
through pool.lifecycle only."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, FailureKind
from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotFound
from coolify.client.resources import Application
from core.leases import HeldLease, LeaseLost, LeaseNotAcquired
from pool.controller.applications import forget_application
from pool.lifecycle import (
    MoveNotAllowed,
    handle_slot_error,
    recover_slot,
    release_bot_from_slot,
)
from pool.reconciler.candidate import ACTOR, Deed, Repair
from slots.locks import with_status_lock
from slots.models import Slot

logger = logging.getLogger(__name__)


class NothingToDo(Exception):
    """Inside the lease it turned out that the slot is not any more as it was seen."""


def release(slot: Slot, *, reason: str) -> Deed:
    """End the bot, if it has not ended, and take the slot back."""
    with _repairing(slot) as (fresh, lease), lease.fenced():
        return _told(release_bot_from_slot(fresh, failure(reason)), "Bot ended, slot released")


def release_silent(
    slot: Slot,
    *,
    reason: str,
    heard_at: datetime | None,
    still: Callable[[], bool] | None = None,
) -> Deed:
    """Release a slot because nothing is heard of its bot, unless that has changed by now."""
    with _repairing(slot) as (fresh, lease):
        _require(still is None or still())
        with lease.fenced():
            # A heartbeat writes to this row: while we hold it none can come between.
            bot = Bot.objects.select_for_update(of=("self",)).filter(slot=fresh).first()
            _require(bot is not None and bot.last_heartbeat_at == heard_at)
            return _told(release_bot_from_slot(fresh, failure(reason)), "Bot failed, slot released")


def replace(slot: Slot, *, reason: str, may_place_again: Callable[[Slot], bool]) -> Deed:
    """Take a slot back by force; it gets a new application.

    `may_place_again` looks inside the lease, and raises NothingToDo where it sees no reason.
    """
    with _repairing(slot) as (fresh, lease), lease.fenced():
        place_again = may_place_again(fresh)
        done = handle_slot_error(
            fresh, reason, actor=ACTOR, recreate=True, timed_out=True, place_again=place_again
        )
        return _told(done, "Slot released by force, its application is replaced")


def give_to_operator(slot: Slot, *, reason: str) -> Deed:
    with _repairing(slot) as (fresh, lease), lease.fenced():
        return _told(handle_slot_error(fresh, reason, actor=ACTOR), "Slot is in error now")


def recover(slot: Slot, *, reason: str, recreate: bool = False) -> Deed:
    with _repairing(slot) as (fresh, lease), lease.fenced():
        done = recover_slot(fresh, reason=reason, actor=ACTOR, recreate=recreate)
        return _told(done, "Slot is being stopped")


def clear_container(slot: Slot, *, reason: str, still: Callable[[], bool]) -> Deed:
    """Stop what runs in an idle slot, if it still does."""
    with _repairing(slot) as (fresh, lease):
        _require(still())
        with lease.fenced():
            return _told(recover_slot(fresh, reason=reason, actor=ACTOR), "Slot is being stopped")


def forget(slot: Slot, *, reason: str, coolify: Coolify) -> Deed:
    """The next start makes a new application."""
    with _repairing(slot) as (fresh, lease):
        _require(read_application(fresh, coolify) is None)
        forget_application(fresh, reason=reason, lease=lease, actor=ACTOR)
    return Deed(True, "Application forgotten; the next start makes a new one")


def failure(reason: str) -> Outcome:
    return Outcome(BotStatus.FAILED, reason, ACTOR, FailureKind.INFRASTRUCTURE)


def read_application(slot: Slot, coolify: Coolify) -> Application | None:
    """None is positive evidence: Coolify itself says that there is none."""
    try:
        return coolify.application(slot.coolify_uuid)
    except NotFound as error:
        if error.thing != "application":
            raise
        return None


def attempt(repair: Repair) -> Deed:
    """Make a repair. What keeps it from being made is its outcome; the next pass looks again."""
    try:
        return repair()
    except NothingToDo:
        return Deed(False, "Not so any more, nothing changed")
    except (LeaseNotAcquired, LeaseLost):
        return Deed(False, "Somebody else works on it, nothing changed")
    except CoolifyError as error:
        return Deed(False, f"Coolify could not be asked, nothing changed: {error}")
    except (DatabaseError, MoveNotAllowed) as error:
        # What cannot be repaired must not keep the rest from being repaired.
        logger.exception("A repair failed")
        return Deed(False, f"It failed, nothing changed: {error}")


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


def _told(done: bool, outcome: str) -> Deed:
    return Deed(True, outcome) if done else Deed(False, "The slot has moved on, nothing changed")
