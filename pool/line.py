"""The line of bots that wait for a slot: joining it, leaving it, and changing places in it.

A bot's row lock also covers its queue entry: lock the bot before you change its entry.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, Q
from django.db.models.functions import Now

from bots.models import HIGHEST_PRIORITY_NUMBER, Bot
from bots.moves import Outcome, move_as_read, note_on_bot
from bots.status import BotStatus
from core.prepared import Parameter, insert_row
from pool.drain import drain_after_commit
from pool.sharing.turns import lane_of, waiting
from queues.models import QueueEntry, ageing

DEADLINE = ExpressionWrapper(Now() + Parameter("patience"), output_field=DateTimeField())


def queue_bot(bot: Bot, *, reason: str, actor: str) -> bool:
    """Make the bot QUEUED and put it in line; False if its status does not allow that.

    The caller's transaction has locked or created it. The drain after the commit may change it.
    """
    if not move_as_read(bot, Outcome(BotStatus.QUEUED, reason, actor)):
        return False
    join_line(bot)
    return True


def join_line(bot: Bot) -> None:
    """Put the bot in its platform's line, ordered by the time of its request: a bot that lost its
    slot returns to its old place. The deadline counts from now."""
    insert_row(
        QueueEntry,
        bot_id=bot.pk,
        platform=bot.platform,
        priority=bot.priority,
        ageing=ageing(),
        lane=lane_of(bot),
        queued_at=bot.created_at,
        timeout_at=DEADLINE,
        parameters={"patience": bot.queue_timeout},
    )
    drain_after_commit(bot.platform, if_any_served=bot.refresh_from_db)


def shorten_wait(bot: Bot, *, until: datetime) -> None:
    QueueEntry.objects.filter(bot=bot, timeout_at__gt=until).update(timeout_at=until)


def leave_line(bot: Bot) -> None:
    QueueEntry.objects.filter(bot=bot).delete()


# --- Changing places ---------------------------------------------------------------------------


def change_priority(bot: Bot, priority: int, *, reason: str, actor: str) -> bool:
    """Change a waiter's priority, and so its place; False if it does not wait."""
    if not 0 <= priority <= HIGHEST_PRIORITY_NUMBER:
        raise ValueError(f"A priority is a number from 0 to {HIGHEST_PRIORITY_NUMBER}")
    with transaction.atomic():
        waiter = _locked(bot.pk).get(bot.pk)
        if waiter is None:
            return False
        Bot.objects.filter(pk=bot.pk).update(priority=priority)
        QueueEntry.objects.filter(bot=bot).update(priority=priority)
        note_on_bot(waiter, f"Priority {waiter.priority} → {priority}: {reason}", actor=actor)
        drain_after_commit(waiter.platform)
    return True


def move_up(bot: Bot, *, reason: str, actor: str) -> bool:
    """Swap places with the waiter ahead of the same client; False if there is none, or the bot does
    not wait."""
    with transaction.atomic():
        ahead = _neighbour(bot, ahead=True)
        return ahead is not None and _swap(ahead, bot.pk, reason=reason, actor=actor)


def move_down(bot: Bot, *, reason: str, actor: str) -> bool:
    """Swap places with the waiter behind of the same client; False if there is none, or the bot
    does not wait."""
    with transaction.atomic():
        behind = _neighbour(bot, ahead=False)
        return behind is not None and _swap(bot.pk, behind, reason=reason, actor=actor)


def _neighbour(bot: Bot, *, ahead: bool) -> int | None:
    entry = QueueEntry.objects.filter(bot=bot).first()
    if entry is None:
        return None
    # Of its own client: between clients, their shares decide.
    others = waiting(entry.platform).filter(lane=entry.lane)
    if ahead:
        before = Q(turn__lt=entry.turn) | Q(turn=entry.turn, pk__lt=entry.pk)
        found = others.filter(before).order_by("-turn", "-pk").first()
    else:
        after = Q(turn__gt=entry.turn) | Q(turn=entry.turn, pk__gt=entry.pk)
        found = others.filter(after).order_by("turn", "pk").first()
    return found.bot_id if found else None


def _swap(ahead_id: int, behind_id: int, *, reason: str, actor: str) -> bool:
    """Swap their places, unless one of them has left the line."""
    bots = _locked(ahead_id, behind_id)
    if len(bots) < 2:
        return False
    entries = QueueEntry.objects.in_bulk([ahead_id, behind_id], field_name="bot_id")
    ahead, behind = entries[ahead_id], entries[behind_id]
    _take_turn(ahead, of=behind)
    _take_turn(behind, of=ahead)
    up, down = _name(bots[ahead_id], bots[behind_id]), _name(bots[behind_id], bots[ahead_id])
    note_on_bot(bots[behind_id], f"Moved up, ahead of {up}: {reason}", actor=actor)
    note_on_bot(bots[ahead_id], f"Moved down, behind {down}: {reason}", actor=actor)
    drain_after_commit(ahead.platform)
    return True


def _name(bot: Bot, reader: Bot) -> str:
    """A client does not learn of the bots of others."""
    return str(bot) if bot.client_id == reader.client_id else "a bot of another client"


def _take_turn(entry: QueueEntry, *, of: QueueEntry) -> None:
    # The database computes the turn from queued_at. The bot's row keeps the true time.
    place = of.turn - entry.priority * entry.ageing
    QueueEntry.objects.filter(pk=entry.pk).update(queued_at=place)


def _locked(*bot_ids: int) -> dict[int, Bot]:
    """Those of the bots that wait, locked until the transaction ends."""
    waiting = Bot.objects.filter(pk__in=bot_ids, status=BotStatus.QUEUED)
    return {bot.pk: bot for bot in waiting.order_by("pk").select_for_update()}
