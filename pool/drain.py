"""Giving free slots to waiters, in their order.

Drains of one platform run one at a time. Two at once would each lock a waiter, and the second in
line might get the only slot. A drain that finds another one running waits for it and then checks
for itself: the other one may have checked too early.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from bots.models import Bot
from bots.status import BotStatus
from core.locks import LockIsTaken, advisory_lock, advisory_lock_within, waiting_at_most
from core.prepared import Prepared
from pool.assign import BotIsNotWaiting, assign_bot_to_slot
from pool.capacity import current_pause, has_opening, read_pool
from pool.lock_names import DRAIN_QUEUE, GROW_POOL
from pool.sharing.turns import first_in_line, waiting
from pool.sizes import fit_if_too_large
from queues.models import QueueEntry
from slots.models import Slot

logger = logging.getLogger(__name__)

ACTOR = "queue"
ITS_TURN = "Its turn in the queue"
PATIENCE = timedelta(milliseconds=500)
BATCH = 10
FRONT = 4


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
        logger.info("[Queue] Another process is draining %s; the next sweep tries again", platform)
    return given


def drain_all() -> list[Slot]:
    """Drain all queues. One that cannot be drained, because of a deadlock for one, holds up no
    other."""
    given: list[Slot] = []
    waiting = QueueEntry.objects.order_by("platform").values_list("platform", flat=True).distinct()
    for platform in list(waiting):
        try:
            given += drain(platform)
        except (DatabaseError, BotIsNotWaiting):
            logger.exception("[Queue] The queue of %s could not be drained", platform)
    return given


def drain_after_commit(platform: str, *, if_any_served: Callable[[], None] | None = None) -> None:
    """Call this in the transaction that frees a slot, adds a waiter or makes room."""

    def drain_now() -> None:  # named: Django logs the name of a hook that fails
        if drain(platform) and if_any_served is not None:
            if_any_served()

    transaction.on_commit(drain_now, robust=True)


@Prepared
def _first_to_wait(platform: str) -> QuerySet[QueueEntry]:
    return waiting(platform)


def _worth_a_try(platform: str) -> bool:
    """Checked before locking: most drains find nothing to do and cost one query."""
    waits = _first_to_wait.exists(platform)
    return waits and current_pause(platform) is None and has_opening(platform)


def _serve_some(platform: str) -> list[Slot]:
    """Serve a few at a time: a waiter that wants to leave the line waits for the commit."""
    batch: list[Slot] = []
    waited_for: set[int] = set()
    with transaction.atomic():
        advisory_lock_within(PATIENCE, DRAIN_QUEUE.format(platform=platform))
        # Before any slot: a request that may grow the pool waits for locked idle slots. Even if the
        # pool is full now: room may appear while slots are given out.
        advisory_lock(GROW_POOL.format(platform=platform))
        fit_if_too_large(read_pool(platform))
        if current_pause(platform) is None:
            while len(batch) < BATCH and (slot := _serve_next(platform, waited_for)):
                batch.append(slot)
    return batch


def _serve_next(platform: str, waited_for: set[int]) -> Slot | None:
    bot = _lock_head(platform, waited_for)
    return assign_bot_to_slot(bot, reason=ITS_TURN, actor=ACTOR) if bot else None


def _lock_head(platform: str, waited_for: set[int]) -> Bot | None:
    """Lock the first bot in line, and with it its queue entry.

    A waiter that another transaction has locked keeps its turn for a moment. Then it is skipped:
    that transaction may be frozen. One that holds a slot is skipped, too: its rows contradict each
    other, and its deadline ends it.
    """
    for bot_id in first_in_line(platform, FRONT):
        bot = _unlocked_waiter.first(bot_id)
        if bot is None and bot_id not in waited_for:
            waited_for.add(bot_id)
            bot = _wait_for(bot_id)
        if bot is not None:
            return bot
    return None


def _wait_for(bot_id: int) -> Bot | None:
    try:
        with waiting_at_most(PATIENCE):
            return _waiter.first(bot_id)
    except LockIsTaken:
        logger.info("[Queue] Bot #%s is locked by another transaction: skipped", bot_id)
        return None


@Prepared
def _unlocked_waiter(bot_id: int) -> QuerySet[Bot]:
    return _waits(bot_id).select_for_update(skip_locked=True, of=("self",), no_key=True)


@Prepared
def _waiter(bot_id: int) -> QuerySet[Bot]:
    return _waits(bot_id).select_for_update(of=("self",), no_key=True)


def _waits(bot_id: int) -> QuerySet[Bot]:
    return Bot.objects.filter(pk=bot_id, status=BotStatus.QUEUED, slot=None)
