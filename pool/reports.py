"""What a bot reports of itself: that it lives, and how far it has got.

A report is made for one assignment: bot, slot, epoch. Once the slot has moved on it changes
nothing, and its bot is told to leave. That is no error: every bot is slower than its release.
"""

from dataclasses import dataclass

from django.db import transaction

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import TERMINAL, BotStatus, FailureKind
from core.correlation import correlated
from core.sql import fetch_one
from pool.lifecycle import mark_slot_running, release_bot_from_slot
from slots.models import Slot
from slots.status import SlotStatus
from slots.tokens import Assignment

_RECORD_SIGN_OF_LIFE = """
UPDATE bots_bot SET last_heartbeat_at = clock_timestamp()
FROM slots_slot
WHERE bots_bot.id = %(bot)s AND slots_slot.id = %(slot)s
    AND slots_slot.epoch = %(epoch)s AND slots_slot.assigned_bot_id = bots_bot.id
RETURNING slots_slot.status, bots_bot.status, bots_bot.correlation_id
"""


def record_heartbeat(assignment: Assignment) -> bool:
    """The bot lives. True if it may stay in its meeting, False if it has to leave."""
    sign = _record_sign_of_life(assignment)
    return sign is not None and not sign.must_leave


def record_status(assignment: Assignment, status: BotStatus, *, reason: str) -> bool:
    """The bot has got to this status. True if it may stay in its meeting.

    A status that it cannot have now, because it comes late or a second time, changes nothing.
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
    row = fetch_one(
        _RECORD_SIGN_OF_LIFE,
        {"bot": assignment.bot_id, "slot": assignment.slot_id, "epoch": assignment.epoch},
    )
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
        kind=FailureKind.MEETING if failed else None,
    )


def _release(assignment: Assignment, outcome: Outcome) -> bool:
    slot = _slot_of(assignment)
    if slot is not None:
        release_bot_from_slot(slot, outcome)
    return False


def _move(assignment: Assignment, outcome: Outcome) -> bool:
    """Move the bot if it still holds the slot: a look at the slot after the bot's row is locked
    is good until the end, because whoever releases the slot locks the bot first."""
    with transaction.atomic():
        Bot.objects.select_for_update().only("pk").get(pk=assignment.bot_id)
        slot = _slot_of(assignment)
        if slot is not None:
            move_bot(assignment.bot_id, outcome, epoch=assignment.epoch)
    return slot is not None


def _note_that_it_runs(assignment: Assignment) -> bool:
    """False if it comes too late: its slot has moved on, or its stop is decided."""
    slot = _slot_of(assignment)
    if slot is not None and slot.status == SlotStatus.DEPLOYING:
        reason, actor = "The bot calls from its container", f"bot:{assignment.bot_id}"
        if mark_slot_running(slot, reason=reason, actor=actor):
            return True
        slot = _slot_of(assignment)  # two calls at once: the other one may have done it
    return slot is not None and slot.status == SlotStatus.BUSY


def _slot_of(assignment: Assignment) -> Slot | None:
    return Slot.objects.filter(
        pk=assignment.slot_id, epoch=assignment.epoch, assigned_bot_id=assignment.bot_id
    ).first()
