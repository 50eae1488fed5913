"""The request for a bot: it gets a slot, or a place in line, in one transaction."""

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from psycopg.types.json import Jsonb

from bots.models import Bot
from bots.moves import log_move
from bots.status import BotStatus
from core.sql import columns, fetch_one, instance
from pool.assign import assign_bot_to_slot
from pool.capacity import PAUSED, SLOT_TO_BE_HAD, opening_parameters
from pool.line import queue_bot
from queues.models import QueueEntry

REQUESTED = "Bot requested"


def _default_queue_timeout() -> timedelta:
    timeout: timedelta = settings.DEFAULT_QUEUE_TIMEOUT
    return timeout


@dataclass(frozen=True, kw_only=True)
class BotRequest:
    meeting_url: str
    platform: str
    display_name: str = "Meeting Bot"
    priority: int = 100
    queue_timeout: timedelta = field(default_factory=_default_queue_timeout)
    config: dict[str, Any] = field(default_factory=dict)
    correlation_id: str | None = None


def request_bot(request: BotRequest, *, actor: str) -> Bot:
    """Make the bot and place it. It comes back DEPLOYING, with its `slot`, or QUEUED.

    It never overtakes a waiter whose turn is before its own.
    """
    try:
        return _request(request, actor=actor)
    except _SomebodyWasFirst:
        return _request(request, actor=actor, known_hindrance=OTHERS_FIRST)


def _request(request: BotRequest, *, actor: str, known_hindrance: str = "") -> Bot:
    with transaction.atomic():
        bot, hindrance = _make(request, actor=actor)
        hindrance = hindrance or known_hindrance
        if not hindrance and _place(bot, actor=actor):
            return bot
        queued = queue_bot(bot, reason=hindrance or NO_SLOT, actor=actor)
    assert queued is not None, "nobody else can have moved a bot that nobody else has seen"
    return queued


NO_SLOT = "Every slot is taken"
PLATFORM_PAUSED = "The platform is paused"
OTHERS_FIRST = "Others wait already"

# The bot, the first line of its history and the look at the line, in one round trip.
_MAKE = f"""
WITH made AS (
    INSERT INTO bots_bot (
        correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout,
        status, previous_status, failure_reason, failure_kind,
        placements, slot_name, coolify_service_uuid
    ) VALUES (
        %(correlation_id)s, %(platform)s, %(meeting_url)s, %(display_name)s, %(config)s,
        %(priority)s, %(queue_timeout)s,
        'PENDING', '', '', '', 0, '', ''
    )
    RETURNING *
), told AS (
    INSERT INTO bots_botevent (
        bot_id, at, from_status, to_status, reason, actor, correlation_id, slot_name, coolify_uuid
    )
    SELECT id, created_at, '', status, %(reason)s, %(actor)s, correlation_id, '', '' FROM made
)
SELECT
    CASE
        WHEN {PAUSED} THEN %(platform_paused)s
        WHEN EXISTS (
            SELECT FROM queues_queueentry AS waiter
            WHERE waiter.platform = %(platform)s
            AND waiter.turn <= made.created_at + made.priority * %(ageing)s::interval
            AND waiter.timeout_at > clock_timestamp()
        ) THEN %(others_first)s
        WHEN NOT {SLOT_TO_BE_HAD} THEN %(no_slot)s
        ELSE ''
    END,
    {columns(Bot)}
FROM made
"""  # noqa: S608 (nothing of this comes from outside)


def _make(request: BotRequest, *, actor: str) -> tuple[Bot, str]:
    """The new bot, and why it has to wait if that is plain already."""
    row = fetch_one(_MAKE, _parameters(request, actor=actor))
    assert row is not None
    hindrance, *values = row
    bot = instance(Bot, tuple(values))
    log_move(
        bot_id=bot.pk,
        from_status="",
        to_status=bot.status,
        slot_name="",
        reason=REQUESTED,
        correlation_id=bot.correlation_id,
    )
    return bot, hindrance


def _parameters(request: BotRequest, *, actor: str) -> dict[str, Any]:
    return {
        **opening_parameters(request.platform),
        "correlation_id": request.correlation_id or uuid.uuid4().hex,
        "meeting_url": request.meeting_url,
        "display_name": request.display_name,
        "config": Jsonb(request.config),
        "priority": request.priority,
        "queue_timeout": request.queue_timeout,
        "ageing": settings.QUEUE_AGEING,
        "reason": REQUESTED,
        "actor": actor,
        "platform_paused": PLATFORM_PAUSED,
        "others_first": OTHERS_FIRST,
        "no_slot": NO_SLOT,
    }


def _place(bot: Bot, *, actor: str) -> bool:
    slot = assign_bot_to_slot(bot, reason=REQUESTED, actor=actor)
    if slot is None:
        return False
    if _somebody_is_ahead_of(bot):
        raise _SomebodyWasFirst
    bot.status, bot.previous_status = BotStatus.DEPLOYING, BotStatus.PENDING
    bot.placements = 1
    bot.slot_name, bot.coolify_service_uuid = slot.name, slot.coolify_uuid
    bot.slot = slot
    return True


def _somebody_is_ahead_of(bot: Bot) -> bool:
    """Between the look at the line and the claim somebody with an earlier turn may have joined
    it, and only then the slot come free. Looking again once the slot is ours leaves no gap."""
    turn = bot.created_at + bot.priority * settings.QUEUE_AGEING
    return QueueEntry.objects.filter(
        platform=bot.platform, turn__lte=turn, timeout_at__gt=Now()
    ).exists()


class _SomebodyWasFirst(Exception):
    """Undoes a placement that would have overtaken a waiter."""
