"""Giving free slots to those who wait, in their order.

The drains of one platform go one at a time: two that ran together would each lock a waiter, and
with one slot to give the second in line might get it. Whoever comes while a drain runs waits for
it and then looks for itself, for the other one may have looked before there was anything to see.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

from django.db import transaction

from bots.models import Bot
from core.locks import LockIsTaken, advisory_lock_within
from core.sql import columns, fetch_one, instance
from pool.assign import assign_bot_to_slot
from pool.capacity import PAUSED, SLOT_TO_BE_HAD, opening_parameters
from pool.lock_names import DRAIN_QUEUE
from queues.models import QueueEntry
from slots.models import Slot

logger = logging.getLogger(__name__)

ACTOR = "queue"
ITS_TURN = "Its turn in the queue"
PATIENCE = timedelta(milliseconds=500)
BATCH = 10
FRONT = 4

# Asked before the lock is taken, so that most nudges, which find nothing to do, cost one query.
_WORTH_A_TRY = f"""
SELECT EXISTS (
    SELECT FROM queues_queueentry
    WHERE platform = %(platform)s AND timeout_at > clock_timestamp()
) AND NOT {PAUSED} AND {SLOT_TO_BE_HAD}
"""  # noqa: S608 (nothing of this comes from outside)

# The bot's lock stands for its entry's, as everywhere. A waiter who is being cancelled or moved at
# this moment is passed over; one whose cancelling was committed meanwhile is not QUEUED any more.
# Only the very front of the line is looked at, and the status is compared as an expression, so
# that every plan begins there: with statistics that are behind, PostgreSQL would read all who wait.
_HEAD = f"""
SELECT {columns(Bot)} FROM bots_bot WHERE id = (
    SELECT bot.id
    FROM (
        SELECT id, bot_id, turn FROM queues_queueentry
        WHERE platform = %(platform)s AND timeout_at > clock_timestamp()
        ORDER BY turn, id
        LIMIT %(front)s
    ) AS entry JOIN bots_bot AS bot ON bot.id = entry.bot_id
    WHERE bot.status || '' = 'QUEUED' AND NOT {PAUSED} AND {SLOT_TO_BE_HAD}
    ORDER BY entry.turn, entry.id
    LIMIT 1
    FOR NO KEY UPDATE OF bot SKIP LOCKED
)
"""  # noqa: S608


def drain(platform: str) -> list[Slot]:
    """Give slots to the waiters of a platform until there is no slot or no waiter."""
    given: list[Slot] = []
    try:
        while _worth_a_try(platform):
            batch = _serve_some(platform)
            given += batch
            if len(batch) < BATCH:
                break
    except LockIsTaken:
        logger.info("[Queue] %s is being drained by others; the sweep looks again", platform)
    return given


def drain_all() -> list[Slot]:
    waiting = QueueEntry.objects.order_by("platform").values_list("platform", flat=True).distinct()
    return [slot for platform in list(waiting) for slot in drain(platform)]


def drain_after_commit(platform: str, *, if_any_served: Callable[[], None] | None = None) -> None:
    """Call this in the transaction that frees a slot, adds a waiter or makes room."""

    def drain_now() -> None:  # named, because Django logs the name of one that fails
        if drain(platform) and if_any_served is not None:
            if_any_served()

    transaction.on_commit(drain_now, robust=True)


def _worth_a_try(platform: str) -> bool:
    row = fetch_one(_WORTH_A_TRY, opening_parameters(platform))
    return row is not None and row[0]


def _serve_some(platform: str) -> list[Slot]:
    """A few at a time, so that nobody who wants to leave the line waits long for the commit."""
    batch: list[Slot] = []
    with transaction.atomic():
        advisory_lock_within(PATIENCE, DRAIN_QUEUE.format(platform=platform))
        while len(batch) < BATCH and (slot := _serve_next(platform)):
            batch.append(slot)
    return batch


def _serve_next(platform: str) -> Slot | None:
    row = fetch_one(_HEAD, {**opening_parameters(platform), "front": FRONT})
    if row is None:
        return None
    return assign_bot_to_slot(instance(Bot, row), reason=ITS_TURN, actor=ACTOR)
