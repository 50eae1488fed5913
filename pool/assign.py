"""Giving a slot to a bot: the slot's row, the bot's move and the deployment, in one transaction."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import DateTimeField, F
from django.db.models.functions import Greatest, Now

from bots.models import Bot
from bots.moves import Outcome, move_as_read
from bots.status import WAITING, BotStatus
from core.clock import database_now
from core.constraints import violated_constraint
from core.prepared import Parameter, insert_instance, insert_row, update_rows
from pool.claim import acquire_or_create_slot
from pool.images.in_use import IMAGE_FOR_BOT, image_parameters
from pool.sharing.turns import turn_of
from queues.models import QueueEntry
from slots.deployment import Deployment
from slots.history import log_slot_transition
from slots.models import Slot, SlotTransition
from slots.status import SlotStatus

A_MOMENT = timedelta(seconds=5)
NOW = Now()
STATUS_LASTED = Now() - F("status_since")
ONE_MORE_PLACEMENT = F("placements") + 1
# A moment at least, so that a bot that finds everything ready is started.
DEADLINE = Greatest(Parameter("wanted"), Now() + A_MOMENT, output_field=DateTimeField())
ONE_SLOT_PER_BOT = "slots_slot_assigned_bot_id_key"


class BotIsNotWaiting(Exception):
    """The bot was cancelled, has ended or already has a slot."""


def assign_bot_to_slot(bot: Bot, *, reason: str, actor: str) -> Slot | None:
    """Give a waiting bot a slot of its platform; None if the pool is full.

    If the caller is in a transaction, `bot` must have been read or made in it.
    """
    try:
        # No savepoint: if this fails, the caller's transaction has nothing left to do.
        with transaction.atomic(savepoint=False):
            slot = acquire_or_create_slot(bot)
            if slot is not None:
                deadline = _leave_line(bot)
                _give_slot(slot, bot, reason=reason, actor=actor)
                _move_bot(slot, bot, reason=reason, actor=actor)
                _add_deployment(slot, bot, deadline=deadline)
    except IntegrityError as error:
        if violated_constraint(error) == ONE_SLOT_PER_BOT:
            raise BotIsNotWaiting(f"{bot} already has a slot") from error
        raise
    return slot


def _give_slot(slot: Slot, bot: Bot, *, reason: str, actor: str) -> None:
    is_new, before = slot.pk is None, slot.status
    slot.status = SlotStatus.DEPLOYING
    slot.assigned_bot, slot.epoch = bot, slot.epoch + 1
    slot.last_bot_id, slot.correlation_id = bot.pk, bot.correlation_id
    slot.status_reason, slot.status_actor = reason, actor
    if is_new:
        slot.status_since = slot.last_assigned_at = slot.last_used_at = database_now()
        insert_instance(slot)
    else:
        slot.previous_status = before
        update_rows(
            Slot,
            {"id": slot.pk},
            status=SlotStatus.DEPLOYING,
            previous_status=before,
            previous_lasted=STATUS_LASTED,
            status_since=NOW,
            status_reason=reason,
            status_actor=actor,
            assigned_bot=bot.pk,
            last_bot_id=bot.pk,
            correlation_id=bot.correlation_id,
            epoch=slot.epoch,
            server_uuid=slot.server_uuid,
            last_assigned_at=NOW,
            last_used_at=NOW,
        )
    log_slot_transition(
        SlotTransition(
            slot_id=slot.pk,
            slot_name=slot.name,
            from_status="" if is_new else before,
            to_status=slot.status,
            reason=reason,
            bot_id=bot.pk,
            epoch=slot.epoch,
            coolify_uuid=slot.coolify_uuid,
            correlation_id=bot.correlation_id,
        )
    )


def _move_bot(slot: Slot, bot: Bot, *, reason: str, actor: str) -> None:
    moved = bot.status in WAITING and move_as_read(
        bot,
        Outcome(BotStatus.DEPLOYING, reason, actor),
        placements=ONE_MORE_PLACEMENT,
        slot_name=slot.name,
        coolify_service_uuid=slot.coolify_uuid,
    )
    if not moved:
        raise BotIsNotWaiting(f"{bot} is no longer waiting for a slot")
    bot.placements += 1
    bot.slot_name, bot.coolify_service_uuid = slot.name, slot.coolify_uuid


def _leave_line(bot: Bot) -> datetime | None:
    """Take the bot out of the queue; return the deadline that it had there."""
    if bot.status != BotStatus.QUEUED:
        return None
    entry = QueueEntry.objects.filter(bot=bot).first()
    QueueEntry.objects.filter(bot=bot).delete()
    return entry.timeout_at if entry else None


def _add_deployment(slot: Slot, bot: Bot, *, deadline: datetime | None) -> None:
    """It first waits for its image, with the turn and the deadline of its bot."""
    insert_row(
        Deployment,
        slot_id=slot.pk,
        slot_name=slot.name,
        bot_id=bot.pk,
        epoch=slot.epoch,
        image=IMAGE_FOR_BOT,
        server_uuid=slot.server_uuid,
        turn=turn_of(bot),
        deadline=DEADLINE,
        parameters={
            "wanted": deadline or bot.created_at + bot.queue_timeout,
            **image_parameters(platform=slot.platform, server=slot.server_uuid),
        },
    )
