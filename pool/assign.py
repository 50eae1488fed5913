"""Giving a slot to a bot: the claim, the bot's move, the deployment and both histories."""

from django.conf import settings
from django.db import IntegrityError, transaction

from bots.models import Bot
from bots.moves import log_move
from bots.status import BotStatus
from core.sql import fetch_one
from pool.claim import acquire_or_create_slot
from slots.history import log_transition
from slots.models import Slot

# The bot's move and both histories, in one round trip. No row: the bot is not waiting any more.
_RECORD_ASSIGNMENT = """
WITH placed AS (
    UPDATE bots_bot SET
        previous_status = status,
        status = 'DEPLOYING',
        status_since = clock_timestamp(),
        placements = placements + 1,
        slot_name = %(slot_name)s,
        coolify_service_uuid = %(coolify_uuid)s
    WHERE id = %(bot)s AND status IN ('PENDING', 'QUEUED')
    RETURNING id, previous_status, status, status_since, correlation_id
), left_the_queue AS (
    DELETE FROM queues_queueentry WHERE bot_id = %(bot)s
), told_by_the_bot AS (
    INSERT INTO bots_botevent (
        bot_id, at, from_status, to_status, reason, actor,
        correlation_id, slot_name, coolify_uuid, epoch
    )
    SELECT
        id, status_since, previous_status, status, %(reason)s, %(actor)s,
        correlation_id, %(slot_name)s, %(coolify_uuid)s, %(epoch)s
    FROM placed
), deployment AS (
    INSERT INTO slots_deployment (slot_id, slot_name, bot_id, epoch, image, server_uuid)
    SELECT %(slot)s, %(slot_name)s, id, %(epoch)s, %(image)s, %(server)s FROM placed
)
INSERT INTO slots_slottransition (
    slot_id, slot_name, at, from_status, to_status, lasted, reason,
    bot_id, epoch, coolify_uuid, actor, correlation_id
)
SELECT
    %(slot)s, %(slot_name)s, %(since)s, %(from_status)s, 'deploying', %(lasted)s, %(reason)s,
    id, %(epoch)s, %(coolify_uuid)s, %(actor)s, correlation_id
FROM placed
RETURNING (SELECT previous_status FROM placed)
"""


class BotIsNotWaiting(Exception):
    """The bot has been cancelled, has ended or has got a slot: there is nobody to place."""


def assign_bot_to_slot(bot: Bot, *, reason: str, actor: str) -> Slot | None:
    """Give a waiting bot a slot of its platform; None if the pool is full."""
    try:
        # No savepoint within a caller's transaction: it has nothing to go on with if this fails.
        with transaction.atomic(savepoint=False):
            slot = acquire_or_create_slot(bot)
            if slot is not None:
                _record_assignment(slot, bot, reason=reason, actor=actor)
    except IntegrityError as error:
        if "assigned_bot_id" in str(error):  # one slot per bot: it has got one meanwhile
            raise BotIsNotWaiting(f"{bot} has a slot already") from error
        raise
    return slot


def _record_assignment(slot: Slot, bot: Bot, *, reason: str, actor: str) -> None:
    row = fetch_one(
        _RECORD_ASSIGNMENT,
        {
            "bot": bot.pk,
            "slot": slot.pk,
            "slot_name": slot.name,
            "coolify_uuid": slot.coolify_uuid,
            "epoch": slot.epoch,
            "since": slot.status_since,
            "from_status": slot.previous_status,
            "lasted": slot.previous_lasted,
            "image": settings.BOT_IMAGES[slot.platform],
            "server": slot.server_uuid,
            "reason": reason,
            "actor": actor,
        },
    )
    if row is None:
        raise BotIsNotWaiting(f"{bot} is not waiting for a slot any more")
    log_transition(
        slot_name=slot.name,
        slot_id=slot.pk,
        from_status=slot.previous_status,
        to_status=slot.status,
        bot_id=bot.pk,
        coolify_uuid=slot.coolify_uuid,
        epoch=slot.epoch,
        reason=reason,
        correlation_id=bot.correlation_id,
    )
    log_move(
        bot_id=bot.pk,
        from_status=row[0],
        to_status=BotStatus.DEPLOYING,
        slot_name=slot.name,
        reason=reason,
        correlation_id=bot.correlation_id,
    )
