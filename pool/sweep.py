"""The safety net beneath the queue, once a second: fail those whose time is up, then drain."""

from dataclasses import dataclass

from django.db import transaction

from bots.moves import Outcome, move_bot
from bots.status import BotStatus, FailureKind
from core.sql import fetch_all
from pool.drain import drain_all
from queues.models import QueueEntry
from slots.models import Slot

ACTOR = "queue"
BATCH = 100

# The shape of it: see pool.drain. Not clock_timestamp(), which no index can be searched for.
_EXPIRED = """
SELECT
    bot.id,
    floor(extract(epoch FROM clock_timestamp() - entry.timeout_at + bot.queue_timeout))
FROM (
    SELECT bot_id, timeout_at FROM queues_queueentry
    WHERE timeout_at <= statement_timestamp()
    ORDER BY timeout_at
    LIMIT %(limit)s
) AS entry JOIN bots_bot AS bot ON bot.id = entry.bot_id
WHERE bot.status || '' = 'QUEUED'
FOR NO KEY UPDATE OF bot SKIP LOCKED
"""


@dataclass(frozen=True, kw_only=True)
class Swept:
    expired: list[int]
    given: list[Slot]


def sweep_queue() -> Swept:
    """Fail those whose time is up, then give every free slot to whose turn it is."""
    return Swept(expired=expire_waiters(), given=drain_all())


def expire_waiters() -> list[int]:
    """Fail all whose deadline has passed; the ids of their bots."""
    expired: list[int] = []
    while batch := _expire_some():
        expired += batch
    return expired


def _expire_some() -> list[int]:
    with transaction.atomic():
        rows = fetch_all(_EXPIRED, {"limit": BATCH})
        expired = [bot_id for bot_id, seconds in rows if move_bot(bot_id, _gave_up(int(seconds)))]
        # Who waits holds no slot, so leaving the line is all there is to their end.
        QueueEntry.objects.filter(bot__in=expired).delete()
    return expired


def _gave_up(seconds: int) -> Outcome:
    return Outcome(
        BotStatus.FAILED,
        f"waited {seconds} s in the queue, no slot became free",
        ACTOR,
        FailureKind.INFRASTRUCTURE,
    )
