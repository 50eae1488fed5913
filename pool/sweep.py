"""The queue's safety net, once a second: fail the waiters whose time is up, then drain."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models.functions import Now

from bots.models import Bot
from bots.moves import Outcome, move_as_read
from bots.status import BotStatus, FailureCause
from core.clock import database_now
from pool.drain import drain_all
from pool.line import leave_line
from queues.models import QueueEntry
from slots.models import Slot

ACTOR = "queue"
BATCH = 100


@dataclass(frozen=True, kw_only=True)
class Swept:
    expired: list[int]
    given: list[Slot]


def sweep_queue() -> Swept:
    """Fail the waiters whose time is up, then give out the free slots."""
    return Swept(expired=expire_waiters(), given=drain_all())


def expire_waiters() -> list[int]:
    """Fail every waiter whose deadline has passed; return the ids of their bots."""
    expired: list[int] = []
    while batch := _expire_some():
        expired += batch
    return expired


def _expire_some() -> list[int]:
    late = QueueEntry.objects.filter(timeout_at__lte=Now()).order_by("timeout_at")
    with transaction.atomic():
        ids = list(late.values_list("bot_id", flat=True)[:BATCH])
        # A waiter that another transaction is moving is left to the next sweep.
        waiting = Bot.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        bots = waiting.filter(pk__in=ids, status=BotStatus.QUEUED).select_related("queue_entry")
        return [bot.pk for bot in bots if _expire(bot)]


def _expire(bot: Bot) -> bool:
    outcome = Outcome(BotStatus.FAILED, _why(bot), ACTOR, FailureCause.QUEUE_TIMEOUT)
    expired = move_as_read(bot, outcome)
    leave_line(bot)
    return expired


def _why(bot: Bot) -> str:
    now = database_now()
    waited = now - bot.status_since
    reason = f"waited {waited.total_seconds():.0f} s in the queue, no slot became free"
    if waited >= bot.queue_timeout:
        return reason
    # It lost its server, and its time is limited (pool.lifecycle.place_elsewhere).
    age = now - bot.created_at
    return (
        f"{reason}; it was requested {age.total_seconds():.0f} s ago and has lost its server since"
    )
