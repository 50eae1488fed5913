"""What a bot reports: that it is alive, and its status.

A report belongs to one assignment: bot, slot, epoch. Once the slot has moved on, a report changes
nothing and the bot is told to leave. That is not an error: a released bot calls for a while.
"""

from dataclasses import dataclass

from django.db import transaction
from django.db.models.functions import Now

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import TERMINAL, BotStatus, FailureCause
from core.correlation import correlated
from pool.lifecycle import mark_slot_running, release_bot_from_slot
from slots.models import Slot
from slots.status import SlotStatus
from slots.tokens import Assignment


def record_heartbeat(assignment: Assignment) -> bool:
    """Record that the bot is alive. True if it may stay in its meeting, False if it must leave."""
    sign = _record_sign_of_life(assignment)
    return sign is not None and not sign.must_leave


def record_status(assignment: Assignment, status: BotStatus, *, reason: str) -> bool:
    """Record the bot's status. True if it may stay in its meeting.

    A status that comes late or a second time changes nothing.
    """
    sign = _record_sign_of_life(assignment)
    if sign is None or sign.must_leave:
        return False
    outcome = _outcome(assignment, status, reason=reason)
    with correlated(sign.correlation_id, bot=assignment.bot_id):
        return _release(assignment, outcome) if status in TERMINAL else _move(assignment, outcome)


@dataclass(frozen=True, kw_only=True)
class _SignOfLife:
    must_leave: bool
    correlation_id: str


def _record_sign_of_life(assignment: Assignment) -> _SignOfLife | None:
    """None if the slot has moved on since the assignment."""
    holds_it = {"slot__pk": assignment.slot_id, "slot__epoch": assignment.epoch}
    holder = Bot.objects.filter(pk=assignment.bot_id, **holds_it)
    if not holder.update(last_heartbeat_at=Now()):
        return None
    row = holder.values_list("slot__status", "status", "correlation_id").first()
    if row is None:
        return None
    slot_status, bot_status, correlation_id = row
    must_leave = bot_status in TERMINAL
    if slot_status == SlotStatus.DEPLOYING:
        with correlated(correlation_id, bot=assignment.bot_id):
            must_leave = not _note_that_it_runs(assignment)
    return _SignOfLife(must_leave=must_leave, correlation_id=correlation_id)


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
        release_bot_from_slot(slot, outcome)
    return False


def _move(assignment: Assignment, outcome: Outcome) -> bool:
    """Move the bot if it still holds the slot.

    The slot is read after the bot is locked. A release locks the bot first, so it has to wait.
    """
    with transaction.atomic():
        Bot.objects.select_for_update().only("pk").get(pk=assignment.bot_id)
        slot = _slot_of(assignment)
        if slot is not None:
            move_bot(assignment.bot_id, outcome)
    return slot is not None


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
