"""The one door through which a bot changes its status."""

import logging
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from bots.models import Bot
from bots.status import TERMINAL, BotStatus, FailureKind, statuses_that_may_become
from core.sql import fetch_one

logger = logging.getLogger(__name__)

# One statement, so that the move and its history cannot be parted. It is a move only from where
# the table of moves allows it: a bot that is elsewhere stays there, and `moved` has no row. For
# those who change something else in the same round trip, with `move_parameters`.
MOVE = """
moved AS (
    UPDATE bots_bot SET
        previous_status = status,
        status = %(to)s,
        status_since = clock_timestamp(),
        failure_reason = %(failure_reason)s,
        failure_kind = %(failure_kind)s,
        queued_at = CASE WHEN %(to)s = 'QUEUED'
            THEN coalesce(queued_at, clock_timestamp()) ELSE queued_at END,
        started_at = CASE WHEN %(to)s = 'JOINING_CALL'
            THEN clock_timestamp() ELSE started_at END,
        ended_at = CASE WHEN %(is_end)s THEN clock_timestamp() END
    WHERE id = %(bot)s AND status = ANY(%(allowed_from)s)
    RETURNING *
), told AS (
    INSERT INTO bots_botevent (
        bot_id, at, from_status, to_status, reason, actor,
        correlation_id, slot_name, coolify_uuid, epoch
    )
    SELECT
        id, status_since, previous_status, status, %(reason)s, %(actor)s,
        correlation_id, slot_name, coolify_service_uuid, %(epoch)s
    FROM moved
)
"""

_MOVE = f"WITH {MOVE} SELECT previous_status, correlation_id, slot_name FROM moved"  # noqa: S608


@dataclass(frozen=True)
class Outcome:
    """How a bot ends, or starts over, and who says so."""

    status: BotStatus
    reason: str
    actor: str
    kind: FailureKind | None = None

    def __post_init__(self) -> None:
        if (self.status == BotStatus.FAILED) != (self.kind is not None):
            raise ValueError("A failure, and nothing else, has a kind")


def move_bot(bot_id: int, outcome: Outcome, *, epoch: int | None = None) -> bool:
    """Move a bot to another status and write its history; False if it may not go there now."""
    row = fetch_one(_MOVE, move_parameters(bot_id, outcome, epoch=epoch))
    if row is None:
        return False
    from_status, correlation_id, slot_name = row
    log_move(
        bot_id=bot_id,
        from_status=from_status,
        to_status=outcome.status,
        slot_name=slot_name,
        reason=outcome.reason,
        correlation_id=correlation_id,
    )
    return True


def move_parameters(bot_id: int, outcome: Outcome, *, epoch: int | None) -> dict[str, Any]:
    failed = outcome.status == BotStatus.FAILED
    return {
        "bot": bot_id,
        "to": outcome.status.value,
        "is_end": outcome.status in TERMINAL,
        "allowed_from": [status.value for status in statuses_that_may_become(outcome.status)],
        "failure_reason": outcome.reason if failed else "",
        "failure_kind": outcome.kind.value if outcome.kind else "",
        "reason": outcome.reason,
        "actor": outcome.actor,
        "epoch": epoch,
    }


def record_request(bot: Bot, *, actor: str) -> None:
    """Write the first line of a new bot's history."""
    bot.events.create(
        to_status=bot.status,
        reason="Bot requested",
        actor=actor,
        correlation_id=bot.correlation_id,
    )
    log_move(
        bot_id=bot.pk,
        from_status="",
        to_status=bot.status,
        slot_name="",
        reason="Bot requested",
        correlation_id=bot.correlation_id,
    )


def log_move(
    *,
    bot_id: int,
    from_status: str,
    to_status: str,
    slot_name: str,
    reason: str,
    correlation_id: str,
) -> None:
    """Say in the log what has become true, once it has."""
    fields = {
        "correlationId": correlation_id,
        "bot": bot_id,
        "from": from_status or None,
        "to": str(to_status),
        "slot": slot_name or None,
        "reason": reason,
    }
    line = (
        f"[Bot] [corr={correlation_id}] Bot #{bot_id}: {from_status or 'new'} → {to_status} | "
        f'slot={slot_name or "none"} | reason="{reason}"'
    )
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))
