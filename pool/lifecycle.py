"""A slot's life with its bots, in the order in which it happens.

    idle ── assign ──► deploying ── running ──► busy ── release ──► stopping ── stopped ──► idle
                           └──────────── error ────────────┘                      ▲
                                           └──────────────── recover ─────────────┘

Everybody who changes a slot calls these functions: views, admin, API, tasks and commands. A Slot
passed in means the slot as the caller read it. If its epoch has moved on since, nothing is
changed and the answer is False: a late writer is never a thief.

Locks are taken in the order bot, slot. The claim of an idle slot comes before its bot's lock,
but waits for nobody.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import TERMINAL, BotStatus, FailureKind
from pool.drain import drain_after_commit
from pool.line import leave_line, queue_bot
from slots.deployment import DeploymentStatus as _D
from slots.models import Slot
from slots.moves import move_slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)


# --- Its container runs ----------------------------------------------------------------------


def mark_slot_running(slot: Slot, *, reason: str, actor: str) -> bool:
    """The container runs: the slot is busy, and its bot is on the way into the meeting."""
    joining = Outcome(BotStatus.JOINING_CALL, reason, actor)
    with _all_or_nothing(slot, reason) as result:
        move_bot(_bot_of(slot), joining, epoch=slot.epoch)
        _move(slot, SlotStatus.BUSY, reason=reason, actor=actor)
    return result.done


# --- The bot is done with it -----------------------------------------------------------------


def release_bot_from_slot(slot: Slot, outcome: Outcome) -> bool:
    """End the bot of this slot, if it has not ended yet, and take the slot back.

    The slot is `stopping` then, and not yet idle: its container has to be stopped first.
    """
    with _all_or_nothing(slot, outcome.reason) as result:
        _end(_bot_of(slot), outcome, epoch=slot.epoch)
        _move(slot, SlotStatus.STOPPING, reason=outcome.reason, actor=outcome.actor)
    return result.done


def end_bot(bot: Bot, outcome: Outcome) -> bool:
    """End a bot wherever it is: in the queue, in a slot or in neither. False if it had ended."""
    with transaction.atomic():
        # The bot first: once it has ended nobody can assign it, so its slot stays what we see.
        ended_now = _end(bot.pk, outcome, epoch=None)
        leave_line(bot)
        slot = get_slot_for_bot(bot)
        if slot is not None:
            _move(slot, SlotStatus.STOPPING, reason=outcome.reason, actor=outcome.actor)
    return ended_now


def confirm_slot_stopped(slot: Slot, *, reason: str, actor: str) -> bool:
    """The container is gone: the slot can be given to the next bot."""
    stopped = move_slot(slot, SlotStatus.IDLE, reason=reason, actor=actor)
    drain_after_commit(slot.platform)
    return stopped


# --- Something went wrong --------------------------------------------------------------------


def handle_slot_error(
    slot: Slot,
    error: str,
    *,
    actor: str,
    recreate: bool = False,
    timed_out: bool = False,
    place_again: bool = True,
) -> bool:
    """The slot cannot go on. A bot that has not run in it yet is placed again, a few times; any
    other fails. The slot waits in `error`, or with `recreate` gets a new application. Nothing is
    done if it has left the status in which it was read: deploying it may have become busy.

    Not `place_again` where the bot's container may yet come up: it must never run twice.
    """
    to = SlotStatus.STOPPING if recreate else SlotStatus.ERROR
    with _all_or_nothing(slot, error) as result:
        if slot.assigned_bot_id is not None:
            _place_again_or_fail(slot, error, actor=actor, may_place=place_again)
        _move(
            slot,
            to,
            reason=error,
            actor=actor,
            error=error,
            recreate=recreate,
            deployment_ends_as=_D.TIMED_OUT if timed_out else _D.FAILED,
            # A bot that has called meanwhile made it busy, and is alive.
            only_from=SlotStatus(slot.status),
        )
    return result.done


def recover_slot(slot: Slot, *, reason: str, actor: str, recreate: bool = False) -> bool:
    """Try a slot in `error` again, or clear an idle one in which something runs: stop it first.
    A slot that a bot holds is released, not recovered: False."""
    return slot.assigned_bot_id is None and move_slot(
        slot, SlotStatus.STOPPING, reason=reason, actor=actor, recreate=recreate
    )


def _place_again_or_fail(slot: Slot, error: str, *, actor: str, may_place: bool) -> None:
    bot = Bot.objects.select_for_update().get(pk=_bot_of(slot))
    tries_left = bot.placements < settings.MAX_PLACEMENTS
    if bot.status == BotStatus.DEPLOYING and tries_left and may_place:
        queue_bot(bot, reason=f"To be placed again: {error}", actor=actor, epoch=slot.epoch)
    else:
        failed = Outcome(BotStatus.FAILED, error, actor, FailureKind.INFRASTRUCTURE)
        _end(bot.pk, failed, epoch=slot.epoch)


# --- Who is where ----------------------------------------------------------------------------


def get_slot_for_bot(bot: Bot) -> Slot | None:
    return Slot.objects.filter(assigned_bot=bot).first()


def get_bot_by_container_uuid(coolify_uuid: str) -> Bot | None:
    """The bot that runs in this container; after its release the one that last did."""
    if not coolify_uuid:
        return None
    assigned = Bot.objects.filter(slot__coolify_uuid=coolify_uuid).first()
    return assigned or (
        Bot.objects.filter(coolify_service_uuid=coolify_uuid).order_by("-id").first()
    )


# --- Parts of the above ----------------------------------------------------------------------


class MoveNotAllowed(Exception):
    """A bot cannot go from where it is to where it was sent; nothing was changed."""


class _SlotMovedOn(Exception):
    """Undoes what a late writer did before it found out."""


@dataclass
class _Result:
    done: bool = False


@contextmanager
def _all_or_nothing(slot: Slot, reason: str) -> Iterator[_Result]:
    """One transaction, undone if the slot has moved on since the caller read it."""
    result = _Result()
    try:
        with transaction.atomic():
            yield result
            result.done = True
    except _SlotMovedOn:
        result.done = False
        logger.info(
            "[Pool] Slot %s (%s): nothing changed, it has left epoch %s | reason=%r",
            slot.name,
            slot.pk,
            slot.epoch,
            reason,
            extra={"fields": {"slot": slot.name, "bot": slot.assigned_bot_id}},
        )


def _move(slot: Slot, to: SlotStatus, **why: Any) -> None:
    if not move_slot(slot, to, **why):
        raise _SlotMovedOn


def _end(bot_id: int, outcome: Outcome, *, epoch: int | None) -> bool:
    """End the bot; False if it has ended before, in whatever way."""
    if move_bot(bot_id, outcome, epoch=epoch):
        return True
    if outcome.status in TERMINAL and Bot.objects.filter(pk=bot_id, status__in=TERMINAL).exists():
        return False
    raise MoveNotAllowed(f"Bot #{bot_id} cannot become {outcome.status} from where it is")


def _bot_of(slot: Slot) -> int:
    if slot.assigned_bot_id is None:
        raise _SlotMovedOn  # nobody was in it when the caller read it: there is nothing to end
    return slot.assigned_bot_id
