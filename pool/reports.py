"""What a bot reports: that it is alive, and its status.

A report belongs to one assignment: bot, slot, epoch. Once the slot has moved on, a report changes
nothing and the bot is told to leave. That is not an error: a released bot calls for a while.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce, Greatest, Now

from bots.models import Bot, BotEvent
from bots.moves import Outcome, move_bot
from bots.status import TERMINAL, BotStatus, FailureCause
from core.correlation import correlated
from pool.lifecycle import mark_slot_running, release_bot_from_slot
from slots.locks import wake_slots
from slots.models import Slot
from slots.status import SlotStatus
from slots.tokens import Assignment

LATE_CALL_PAUSE = timedelta(seconds=5)
# How often a host may send a bot back to the waiting room: the only circle that a bot can move in.
MOST_RETURNS = 100


def record_heartbeat(assignment: Assignment) -> bool:
    """Record that the bot is alive. True if it may stay in its meeting, False if it must leave."""
    sign = _record_sign_of_life(assignment)
    if sign is None:
        note_late_call(assignment)
    return sign is not None and not sign.must_leave and not sign.is_overlong


def record_status(assignment: Assignment, status: BotStatus, *, reason: str) -> bool:
    """Record the bot's status. True if it may stay in its meeting.

    A status that comes late or a second time changes nothing.
    """
    sign = _record_sign_of_life(assignment)
    if sign is None:
        note_late_call(assignment)
    if sign is None or sign.must_leave:
        return False
    outcome = _outcome(assignment, status, reason=reason)
    with correlated(sign.correlation_id, bot=assignment.bot_id):
        if status in TERMINAL:
            return _release(assignment, outcome)
        return _move(assignment, outcome) and not sign.is_overlong


def note_late_call(assignment: Assignment) -> None:
    """A container called whose assignment is over, and was told to leave: it lives, and knows.

    Only the slot's last container counts. A container that calls often is noted now and then.
    """
    epoch = assignment.epoch
    slot = Slot.objects.filter(
        pk=assignment.slot_id, epoch__gt=epoch, last_bot_id=assignment.bot_id
    ).exclude(late_call_at__gt=Now() - LATE_CALL_PAUSE, told_epoch=epoch)
    told = Greatest(Coalesce("told_epoch", epoch), epoch)
    if slot.update(late_call_at=Now(), told_epoch=told):
        wake_slots([assignment.slot_id])


@dataclass(frozen=True, kw_only=True)
class _SignOfLife:
    must_leave: bool
    is_overlong: bool  # it should leave, and its reports still count
    correlation_id: str


def _record_sign_of_life(assignment: Assignment) -> _SignOfLife | None:
    """None if the slot has moved on since the assignment."""
    holds_it = {"slot__pk": assignment.slot_id, "slot__epoch": assignment.epoch}
    holder = Bot.objects.filter(pk=assignment.bot_id, **holds_it)
    if not holder.update(last_heartbeat_at=Now()):
        return None
    row = holder.values_list(
        "slot__status", "status", "correlation_id", "started_at", "last_heartbeat_at"
    ).first()
    if row is None:
        return None
    slot_status, bot_status, correlation_id, started_at, now = row
    assert now is not None  # just written
    is_overlong = started_at is not None and now - started_at > settings.MAX_MEETING_DURATION
    must_leave = bot_status in TERMINAL
    if slot_status == SlotStatus.DEPLOYING:
        with correlated(correlation_id, bot=assignment.bot_id):
            must_leave = not _note_that_it_runs(assignment)
    return _SignOfLife(
        must_leave=must_leave, is_overlong=is_overlong, correlation_id=correlation_id
    )


def _outcome(assignment: Assignment, status: BotStatus, *, reason: str) -> Outcome:
    failed = status == BotStatus.FAILED
    return Outcome(
        status=status,
        reason=reason or ("The bot failed and gave no reason" if failed else "Reported by the bot"),
        actor=f"bot:{assignment.bot_id}",
        cause=FailureCause.REPORTED_BY_BOT if failed else None,
    )


def _release(assignment: Assignment, outcome: Outcome) -> bool:
    slot = _slot_of(assignment)
    if slot is not None:
        with transaction.atomic():
            if release_bot_from_slot(slot, outcome):
                # It has left its meeting by itself.
                Slot.objects.filter(pk=slot.pk).update(told_epoch=assignment.epoch)
    return False


def _move(assignment: Assignment, outcome: Outcome) -> bool:
    """Move the bot if it still holds the slot.

    The slot is read after the bot is locked. A release locks the bot first, so it has to wait.
    """
    with transaction.atomic():
        Bot.objects.select_for_update().only("pk").get(pk=assignment.bot_id)
        slot = _slot_of(assignment)
        if slot is not None and not _returns_too_often(assignment.bot_id, outcome):
            move_bot(assignment.bot_id, outcome)
    return slot is not None


def _returns_too_often(bot_id: int, outcome: Outcome) -> bool:
    """Whether this would be one return too many: a bot in a loop must not fill the history."""
    if outcome.status != BotStatus.IN_WAITING_ROOM:
        return False
    returns = BotEvent.objects.filter(
        bot=bot_id, from_status=BotStatus.IN_CALL, to_status=BotStatus.IN_WAITING_ROOM
    )
    return returns.count() >= MOST_RETURNS


def _note_that_it_runs(assignment: Assignment) -> bool:
    """False if it is too late: the slot has moved on or is to be stopped."""
    slot = _slot_of(assignment)
    if slot is not None and slot.status == SlotStatus.DEPLOYING:
        reason, actor = "The bot called from its container", f"bot:{assignment.bot_id}"
        if mark_slot_running(slot, reason=reason, actor=actor):
            return True
        slot = _slot_of(assignment)  # another call at the same time may have done it
    return slot is not None and slot.status == SlotStatus.BUSY


def _slot_of(assignment: Assignment) -> Slot | None:
    return Slot.objects.filter(
        pk=assignment.slot_id, epoch=assignment.epoch, assigned_bot_id=assignment.bot_id
    ).first()
