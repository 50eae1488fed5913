"""Requests for bots: each gets a slot, or a place in line, in one transaction."""

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from bots.models import Bot, BotEvent
from bots.moves import log_bot_event
from core.prepared import insert_instance
from pool.assign import assign_bot_to_slot
from pool.capacity import current_pause
from pool.line import queue_bot
from pool.sharing.quota import (
    OverQuota,
    lock_limits,
    refuse_one_more_bot,
    refuse_one_more_waiter,
)
from pool.sharing.turns import has_others_first

REQUESTED = "Bot requested"
NO_SLOT = "Every slot is taken"
PLATFORM_PAUSED = "The platform is paused"
OTHERS_FIRST = "Other bots are already waiting"


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
    request_key: str = ""
    client_id: int | None = None
    # False if the caller knows that the client has no limits, which saves a query.
    is_limited: bool = True


def request_bot(request: BotRequest, *, actor: str) -> Bot:
    """Create the bot and place it: it is returned DEPLOYING, with its `slot`, or QUEUED.

    It never overtakes a waiter that goes before it (pool.sharing.turns). Raises OverQuota if its
    client has as many bots as it may; then nothing is changed.
    """
    try:
        return _request(request, actor=actor)
    except _WouldOvertake:
        return _request(request, actor=actor, has_to_wait=OTHERS_FIRST)


def request_bot_once(request: BotRequest, *, actor: str) -> tuple[Bot, bool]:
    """As `request_bot`, but return the bot that an earlier request with this `request_key` made, if
    there is one; and whether the bot is new. Both requests may come at the same time."""
    earlier = _bot_of(request)
    if earlier is not None:
        return earlier, False
    try:
        return request_bot(request, actor=actor), True
    except (IntegrityError, OverQuota):
        # Another process was first; its bot may be the last one that the client may have.
        earlier = _bot_of(request)
        if earlier is None:
            raise
        return earlier, False


def _bot_of(request: BotRequest) -> Bot | None:
    key = request.request_key
    return Bot.objects.filter(request_key=key).first() if key else None


def _request(request: BotRequest, *, actor: str, has_to_wait: str = "") -> Bot:
    with transaction.atomic():
        limits = lock_limits(request.client_id) if request.is_limited else None
        if limits is not None:
            refuse_one_more_bot(limits)
        bot = _make(request, actor=actor)
        why = has_to_wait or _why_it_has_to_wait(bot) or _place(bot, actor=actor)
        if why and limits is not None:
            refuse_one_more_waiter(limits)
        if why:
            queue_bot(bot, reason=why, actor=actor)
    return bot


def _make(request: BotRequest, *, actor: str) -> Bot:
    bot = Bot(
        client_id=request.client_id,
        correlation_id=request.correlation_id or uuid.uuid4().hex,
        request_key=request.request_key,
        platform=request.platform,
        meeting_url=request.meeting_url,
        display_name=request.display_name,
        config=request.config,
        priority=request.priority,
        queue_timeout=request.queue_timeout,
        status_reason=REQUESTED,
        status_actor=actor,
    )
    insert_instance(bot)
    log_bot_event(
        BotEvent(
            bot_id=bot.pk,
            to_status=bot.status,
            reason=REQUESTED,
            correlation_id=bot.correlation_id,
        )
    )
    return bot


def _why_it_has_to_wait(bot: Bot) -> str:
    if current_pause(bot.platform):
        return PLATFORM_PAUSED
    return OTHERS_FIRST if has_others_first(bot) else ""


def _place(bot: Bot, *, actor: str) -> str:
    """Give the bot a slot, or return why it has to wait."""
    slot = assign_bot_to_slot(bot, reason=REQUESTED, actor=actor)
    if slot is None:
        return NO_SLOT
    # Since the first check, a waiter with an earlier turn may have joined and a slot come free.
    # Now that the slot is ours, a second check leaves no gap.
    if has_others_first(bot):
        raise _WouldOvertake
    bot.slot = slot
    return ""


class _WouldOvertake(Exception):
    """Rolls back a placement that would have overtaken a waiter."""
