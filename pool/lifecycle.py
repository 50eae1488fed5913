"""A slot's life with its bots, in the order in which it happens.

    idle ── assign ──► deploying ── running ──► busy ── release ──► stopping ── stopped ──► idle
                           └──────────── error ────────────┘                      ▲
                                           └──────────────── recover ─────────────┘

Every change of a slot goes through pool.assign and these functions: views, admin, API, tasks and
commands call them. Each takes the slot as the caller read it. If its epoch has moved on since,
nothing changes and the function returns False: a late writer never takes a slot from its next bot.

Lock order: the bot, then its slot.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F

from bots.models import Bot
from bots.moves import Outcome, lock_bot, move_as_read
from bots.status import TERMINAL, BotStatus, FailureCause
from pool.drain import drain_after_commit
from pool.failures.logs import want_logs
from pool.failures.quarantine import quarantine_if_failing
from pool.line import leave_line, queue_bot, shorten_wait
from slots.history import log_release
from slots.models import Slot
from slots.moves import SlotMove, move_slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)


# --- The container runs ----------------------------------------------------------------------


def mark_slot_running(slot: Slot, *, reason: str, actor: str) -> bool:
    """The container runs: make the slot busy and its bot JOINING_CALL."""
    with _all_or_nothing(slot, reason) as result:
        move_as_read(_lock_bot_of(slot), Outcome(BotStatus.JOINING_CALL, reason, actor))
        _move(slot, SlotMove(to=SlotStatus.BUSY, reason=reason, actor=actor))
    return result.done


# --- The bot is done with it -----------------------------------------------------------------


def release_bot_from_slot(slot: Slot, outcome: Outcome) -> bool:
    """End the slot's bot, unless it has ended, and take the slot back.

    The slot becomes `stopping`, not idle: its container has to stop first.
    """
    with _all_or_nothing(slot, outcome.reason) as result:
        bot = _lock_bot_of(slot)
        status = outcome.status if _end(bot, outcome) else bot.status
        _release(slot, outcome, bot_status=status)
    return result.done


def end_bot(bot: Bot, outcome: Outcome) -> bool:
    """End a bot wherever it is: in the queue, in a slot or in neither. False if it had ended."""
    with transaction.atomic():
        # Lock the bot first: once it has ended it gets no slot, so the slot read below is final.
        current = lock_bot(bot.pk)
        if current is None:
            return False
        ended_now = _end(current, outcome)
        leave_line(bot)
        slot = get_slot_for_bot(bot)
        if slot is not None:
            status = outcome.status if ended_now else current.status
            _release(slot, outcome, bot_status=status)
    return ended_now


def confirm_slot_stopped(slot: Slot, *, reason: str, actor: str) -> bool:
    """The container is gone: the slot can be given to the next bot."""
    stopped = move_slot(slot, SlotMove(to=SlotStatus.IDLE, reason=reason, actor=actor))
    drain_after_commit(slot.platform)
    return stopped


# --- Something went wrong --------------------------------------------------------------------


def handle_slot_error(
    slot: Slot,
    error: str,
    *,
    cause: FailureCause,
    actor: str,
    recreate: bool = False,
    place_again: bool = True,
) -> bool:
    """Take a failed slot out of service. A bot that has not run in it yet is placed again, a few
    times; any other bot fails. The slot waits in `error`; with `recreate` it gets a new
    application.

    This ends the slot's epoch: a container that comes up late is told to leave and joins no
    meeting. Nothing changes if the slot's status has changed since it was read: it may be busy now.
    """
    to = SlotStatus.STOPPING if recreate else SlotStatus.ERROR
    move = SlotMove(to=to, reason=error, actor=actor, cause=cause, recreate=recreate)
    with _all_or_nothing(slot, error) as result:
        if slot.assigned_bot_id is not None:
            bot = _lock_bot_of(slot)
            failed = Outcome(BotStatus.FAILED, error, actor, cause)
            status = BotStatus.QUEUED
            if not (place_again and _place_again(bot, error, actor=actor)):
                status = failed.status if _end(bot, failed) else BotStatus(bot.status)
            want_logs(slot, cause=cause)
            log_release(slot, bot_status=status, reason=error)
        _move(slot, move, only_as_read=True)
        if slot.status == SlotStatus.DEPLOYING and cause != FailureCause.OPERATOR:
            quarantine_if_failing(slot, actor=actor)
    return result.done


def give_up_start(slot: Slot, reason: str, *, actor: str) -> bool:
    """Fail the bot whose start Coolify never accepted. A different slot would not help, and the
    meeting has long begun.

    The slot is not at fault: it is stopped, in case the start arrived after all, and no attempt to
    recover it is spent. Coolify may be away for hours, and is to find its slots usable again.
    """
    cause = FailureCause.START_TIMED_OUT
    with _all_or_nothing(slot, reason) as result:
        bot = _lock_bot_of(slot)
        _end(bot, Outcome(BotStatus.FAILED, reason, actor, cause))
        want_logs(slot, cause=cause)
        log_release(slot, bot_status=BotStatus.FAILED, reason=reason)
        move = SlotMove(to=SlotStatus.STOPPING, reason=reason, actor=actor, cause=cause)
        _move(slot, move, only_as_read=True)
    return result.done


def _place_again(bot: Bot, error: str, *, actor: str) -> bool:
    """Put a bot that has not run yet back in line; False if it ran or has no tries left."""
    tries_left = bot.placements < settings.MAX_PLACEMENTS
    if bot.status != BotStatus.DEPLOYING or not tries_left:
        return False
    return queue_bot(bot, reason=f"Placed again: {error}", actor=actor)


def place_elsewhere(slot: Slot, reason: str, *, actor: str, was_started: bool) -> bool:
    """Take the bot of a slot that is deploying back to its place in line, because its server is
    out of service. That is not the bot's fault: it does not count as one of its placements. It is
    no reason to start it hours later, either.

    If its start was sent, the slot waits in `error`: a container may still come up there. It is of
    an epoch that is over, so it is told to leave before it joins the meeting.
    """
    to = SlotStatus.ERROR if was_started else SlotStatus.STOPPING
    cause = FailureCause.SERVER_LOST
    with _all_or_nothing(slot, reason) as result:
        bot = _lock_bot_of(slot)
        if not queue_bot(bot, reason=f"Placed again: {reason}", actor=actor):
            raise _SlotMovedOn
        Bot.objects.filter(pk=bot.pk).update(placements=F("placements") - 1)
        shorten_wait(bot, until=bot.created_at + bot.queue_timeout + settings.DEPLOY_TIMEOUT)
        want_logs(slot, cause=cause)
        _move(slot, SlotMove(to=to, reason=reason, actor=actor, cause=cause), only_as_read=True)
    return result.done


def recover_slot(slot: Slot, *, reason: str, actor: str, recreate: bool = False) -> bool:
    """Stop a slot in `error`, or an idle one in which something runs, to make it usable again.
    False for a slot that a bot holds: release that one instead."""
    move = SlotMove(to=SlotStatus.STOPPING, reason=reason, actor=actor, recreate=recreate)
    return slot.assigned_bot_id is None and move_slot(slot, move)


def recovers_at(slot: Slot) -> datetime | None:
    """When the controller recovers a slot in `error`: each pause is four times as long as the one
    before. None: only an operator does."""
    if slot.recovery_attempts >= settings.RECOVERY_ATTEMPTS:
        return None
    pause: timedelta = settings.RECOVERY_PAUSE * 4 ** min(slot.recovery_attempts, 10)
    return slot.status_since + pause


# --- Who is where ----------------------------------------------------------------------------


def get_slot_for_bot(bot: Bot) -> Slot | None:
    return Slot.objects.filter(assigned_bot=bot).first()


def get_bot_by_container_uuid(coolify_uuid: str) -> Bot | None:
    """The bot that runs in this container, or else the last one that did."""
    if not coolify_uuid:
        return None
    assigned = Bot.objects.filter(slot__coolify_uuid=coolify_uuid).first()
    return assigned or (
        Bot.objects.filter(coolify_service_uuid=coolify_uuid).order_by("-id").first()
    )


# --- Parts of the above ----------------------------------------------------------------------


class MoveNotAllowed(Exception):
    """The bot's status does not allow this move; nothing was changed."""


class _SlotMovedOn(Exception):
    """Rolls back the changes of a late writer."""


@dataclass
class _Result:
    done: bool = False


@contextmanager
def _all_or_nothing(slot: Slot, reason: str) -> Iterator[_Result]:
    """One transaction, rolled back if the slot has moved on since the caller read it."""
    result = _Result()
    try:
        with transaction.atomic():
            yield result
            result.done = True
    except _SlotMovedOn:
        result.done = False
        logger.info(
            "[Pool] Slot %s (%s): nothing changed, the slot has left epoch %s | reason=%r",
            slot.name,
            slot.pk,
            slot.epoch,
            reason,
            extra={"fields": {"slot": slot.name, "bot": slot.assigned_bot_id}},
        )


def _move(slot: Slot, move: SlotMove, *, only_as_read: bool = False) -> None:
    if not move_slot(slot, move, only_as_read=only_as_read):
        raise _SlotMovedOn


def _release(slot: Slot, outcome: Outcome, *, bot_status: str) -> None:
    if bot_status == BotStatus.FAILED:
        want_logs(slot, cause=outcome.cause)
    move = SlotMove(to=SlotStatus.STOPPING, reason=outcome.reason, actor=outcome.actor)
    _move(slot, move)
    log_release(slot, bot_status=bot_status, reason=outcome.reason)


def _lock_bot_of(slot: Slot) -> Bot:
    """The bot that held the slot when the caller read it, locked."""
    bot = lock_bot(slot.assigned_bot_id) if slot.assigned_bot_id is not None else None
    if bot is None:
        raise _SlotMovedOn
    return bot


def _end(bot: Bot, outcome: Outcome) -> bool:
    """End the bot; False if it had already ended."""
    if move_as_read(bot, outcome):
        return True
    if outcome.status in TERMINAL and bot.is_terminal:
        return False
    raise MoveNotAllowed(f"{bot} cannot move from {bot.status} to {outcome.status}")
