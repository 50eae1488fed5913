"""The only code that changes a bot's status."""

import logging
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce, Now

from bots.models import Bot, BotEvent
from bots.status import TERMINAL, BotStatus, FailureCause, may_become
from core.logs import quoted
from core.prepared import Prepared, update_returning

logger = logging.getLogger(__name__)

NOW = Now()
FIRST_QUEUED = Coalesce("queued_at", Now())
TIMES = ("status_since", "queued_at", "started_at", "ended_at")


@dataclass(frozen=True)
class Outcome:
    """The status a bot moves to, why, and who says so."""

    status: BotStatus
    reason: str
    actor: str
    cause: FailureCause | None = None

    def __post_init__(self) -> None:
        if (self.status == BotStatus.FAILED) != (self.cause is not None):
            raise ValueError("A failure, and nothing else, has a cause")


def move_bot(bot_id: int, outcome: Outcome) -> bool:
    """Lock the bot and move it; False if it may not go there from where it is."""
    with transaction.atomic(savepoint=False):
        bot = lock_bot(bot_id)
        return bot is not None and move_as_read(bot, outcome)


def lock_bot(bot_id: int) -> Bot | None:
    """The bot as it is now; no other transaction can move it until this one ends."""
    return _locked.first(bot_id)


@Prepared
def _locked(bot_id: int) -> QuerySet[Bot]:
    return Bot.objects.select_for_update(no_key=True).filter(pk=bot_id)


def move_as_read(bot: Bot, outcome: Outcome, **more: Any) -> bool:
    """Move the bot from the status in which it was read; False if it has left that, or may not go
    there. `more`: fields that change with it."""
    if not may_become(bot.status, outcome.status):
        return False
    changes = {
        "previous_status": bot.status,
        "status": outcome.status,
        "status_reason": outcome.reason,
        "status_actor": outcome.actor,
        "failure_reason": outcome.reason if outcome.cause else "",
        "failure_kind": outcome.cause.kind if outcome.cause else "",
        "failure_cause": outcome.cause or "",
    }
    times = update_returning(
        Bot,
        {"id": bot.pk, "status": bot.status},
        columns=TIMES,
        status_since=NOW,
        **changes,
        **_times(outcome.status),
        **more,
    )
    if times is None:
        return False
    log_bot_event(
        BotEvent(
            bot_id=bot.pk,
            from_status=bot.status,
            to_status=outcome.status,
            reason=outcome.reason,
            correlation_id=bot.correlation_id,
            slot_name=more.get("slot_name", bot.slot_name),
        )
    )
    for name, value in (*changes.items(), *zip(TIMES, times, strict=True)):
        setattr(bot, name, value)
    return True


def _times(status: BotStatus) -> dict[str, Any]:
    """When it was first queued, when it last started, when it ended."""
    if status == BotStatus.QUEUED:
        return {"queued_at": FIRST_QUEUED}
    if status == BotStatus.JOINING_CALL:
        return {"started_at": NOW}
    return {"ended_at": NOW} if status in TERMINAL else {}


def note_on_bot(bot: Bot, reason: str, *, actor: str) -> None:
    """Record something that happened to a bot without moving it."""
    event = BotEvent(
        bot=bot,
        from_status=bot.status,
        to_status=bot.status,
        reason=reason,
        actor=actor,
        correlation_id=bot.correlation_id,
    )
    event.save(force_insert=True)
    log_bot_event(event)


def log_bot_event(event: BotEvent) -> None:
    """Write one log line for a change, once it is committed."""
    fields = {
        "correlationId": event.correlation_id,
        "bot": event.bot_id,
        "from": event.from_status or None,
        "to": str(event.to_status),
        "slot": event.slot_name or None,
        "reason": event.reason,
    }
    line = (
        f"[Bot] [corr={event.correlation_id}] Bot #{event.bot_id}: "
        f"{event.from_status or 'new'} → {event.to_status} | "
        f"slot={event.slot_name or 'none'} | reason={quoted(event.reason)}"
    )
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))
