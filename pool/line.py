"""The line of bots that wait for a slot: joining it, leaving it, and changing places in it.

The lock of a bot stands for its place as well: whoever changes an entry holds its bot first.
"""

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from bots.models import HIGHEST_PRIORITY_NUMBER, Bot, BotEvent
from bots.moves import MOVE, Outcome, log_move, move_parameters
from bots.status import BotStatus
from core.sql import columns, fetch_one, instance
from pool.drain import drain_after_commit
from queues.models import QueueEntry

# The move and the place in line, in one round trip.
_QUEUE = f"""
WITH {MOVE}, joined AS (
    INSERT INTO queues_queueentry (bot_id, platform, priority, queued_at, timeout_at, ageing)
    SELECT
        id, platform, priority, created_at, clock_timestamp() + queue_timeout, %(ageing)s::interval
    FROM moved
)
SELECT {columns(Bot)} FROM moved
"""  # noqa: S608 (nothing of this comes from outside)


def queue_bot(bot: Bot, *, reason: str, actor: str, epoch: int | None = None) -> Bot | None:
    """Make a bot QUEUED and let it join the line. It comes back as it is then, and as it is after
    the drain that follows the commit; None if it may not wait, and nothing has changed."""
    outcome = Outcome(BotStatus.QUEUED, reason, actor)
    parameters = move_parameters(bot.pk, outcome, epoch=epoch)
    row = fetch_one(_QUEUE, {**parameters, "ageing": settings.QUEUE_AGEING})
    if row is None:
        return None
    queued = instance(Bot, row)
    log_move(
        bot_id=queued.pk,
        from_status=queued.previous_status,
        to_status=queued.status,
        slot_name=queued.slot_name,
        reason=reason,
        correlation_id=queued.correlation_id,
    )
    drain_after_commit(queued.platform, if_any_served=queued.refresh_from_db)
    return queued


def join_line(bot: Bot) -> None:
    """Put a bot in the line of its platform, in the place of the time it was asked for: one that
    had a slot and lost it comes back to where it was. The deadline counts from now."""
    QueueEntry.objects.create(
        bot=bot,
        platform=bot.platform,
        priority=bot.priority,
        queued_at=bot.created_at,
        timeout_at=Now() + bot.queue_timeout,
    )
    drain_after_commit(bot.platform)


def leave_line(bot: Bot) -> None:
    QueueEntry.objects.filter(bot=bot).delete()


# --- Changing places ---------------------------------------------------------------------------


def change_priority(bot: Bot, priority: int, *, reason: str, actor: str) -> bool:
    """Give a waiter another priority, and so another place; False if it does not wait."""
    if not 0 <= priority <= HIGHEST_PRIORITY_NUMBER:
        raise ValueError(f"A priority is a number from 0 to {HIGHEST_PRIORITY_NUMBER}")
    with transaction.atomic():
        waiter = _locked(bot.pk).get(bot.pk)
        if waiter is None:
            return False
        Bot.objects.filter(pk=bot.pk).update(priority=priority)
        QueueEntry.objects.filter(bot=bot).update(priority=priority)
        _tell(waiter, f"Priority {waiter.priority} → {priority}: {reason}", actor=actor)
        drain_after_commit(waiter.platform)
    return True


def move_up(bot: Bot, *, reason: str, actor: str) -> bool:
    """Change places with the one ahead; False if there is none or it does not wait."""
    with transaction.atomic():
        ahead = _neighbour(bot, ahead=True)
        return ahead is not None and _swap(ahead, bot.pk, reason=reason, actor=actor)


def move_down(bot: Bot, *, reason: str, actor: str) -> bool:
    """Change places with the one behind; False if there is none or it does not wait."""
    with transaction.atomic():
        behind = _neighbour(bot, ahead=False)
        return behind is not None and _swap(bot.pk, behind, reason=reason, actor=actor)


def _neighbour(bot: Bot, *, ahead: bool) -> int | None:
    entry = QueueEntry.objects.filter(bot=bot).first()
    if entry is None:
        return None
    others = QueueEntry.objects.filter(platform=entry.platform, timeout_at__gt=Now())
    if ahead:
        before = Q(turn__lt=entry.turn) | Q(turn=entry.turn, pk__lt=entry.pk)
        found = others.filter(before).order_by("-turn", "-pk").first()
    else:
        after = Q(turn__gt=entry.turn) | Q(turn=entry.turn, pk__gt=entry.pk)
        found = others.filter(after).order_by("turn", "pk").first()
    return found.bot_id if found else None


def _swap(ahead_id: int, behind_id: int, *, reason: str, actor: str) -> bool:
    """Let the two change places, unless one of them has left the line meanwhile."""
    bots = _locked(ahead_id, behind_id)
    if len(bots) < 2:
        return False
    entries = QueueEntry.objects.in_bulk([ahead_id, behind_id], field_name="bot_id")
    ahead, behind = entries[ahead_id], entries[behind_id]
    _take_turn(ahead, of=behind)
    _take_turn(behind, of=ahead)
    _tell(bots[behind_id], f"Moved up, ahead of Bot #{ahead_id}: {reason}", actor=actor)
    _tell(bots[ahead_id], f"Moved down, behind Bot #{behind_id}: {reason}", actor=actor)
    drain_after_commit(ahead.platform)
    return True


def _take_turn(entry: QueueEntry, *, of: QueueEntry) -> None:
    # The turn follows from the time, so the time is what is set. bots_bot has the true one.
    place = of.turn - entry.priority * entry.ageing
    QueueEntry.objects.filter(pk=entry.pk).update(queued_at=place)


def _locked(*bot_ids: int) -> dict[int, Bot]:
    """Those of the bots that wait, held until the end of the transaction."""
    waiting = Bot.objects.filter(pk__in=bot_ids, status=BotStatus.QUEUED)
    return {bot.pk: bot for bot in waiting.order_by("pk").select_for_update()}


def _tell(bot: Bot, reason: str, *, actor: str) -> None:
    """A line of history for a bot that waits as before."""
    BotEvent.objects.create(
        bot=bot,
        from_status=bot.status,
        to_status=bot.status,
        reason=reason,
        actor=actor,
        correlation_id=bot.correlation_id,
    )
    log_move(
        bot_id=bot.pk,
        from_status=bot.status,
        to_status=bot.status,
        slot_name="",
        reason=reason,
        correlation_id=bot.correlation_id,
    )
