"""The order of a platform's line: fair between clients, by turn within each.

A free slot goes to a client that holds none, else to the one that holds the fewest for its share.
So a client that floods the line fills what the others leave, and no more than its share once they
come. Each client's own bots go by turn: the time of the request, plus its priority. Where only one
client waits, that is the order of the line.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, Max, Min, OuterRef, QuerySet
from django.db.models.functions import Coalesce, Now

from bots.models import Bot, Client
from core.prepared import Prepared
from queues.models import QueueEntry, ageing
from slots.models import Slot

LAST = 2**63  # the number of no entry yet


@dataclass(frozen=True, kw_only=True)
class Waiter:
    """An entry of the line. `lane`: its client, see QueueEntry."""

    lane: int
    turn: datetime
    entry_id: int
    bot_id: int = 0
    timeout_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How many slots each client holds, and its share."""

    held: dict[int, int] = field(default_factory=dict)
    share: dict[int, int] = field(default_factory=dict)

    def rank(self, waiter: Waiter, nth: int) -> tuple[Any, ...]:
        """Lower goes first. `nth`: the place among the waiters of its client, from 1."""
        slots = self.held.get(waiter.lane, 0) + nth  # those it would hold, with this one
        share = self.share.get(waiter.lane, 1)
        return (slots > 1, slots / share, waiter.turn, waiter.entry_id)

    def in_order(self, waiters: Iterable[Waiter]) -> list[Waiter]:
        """`waiters` come by turn."""
        seen: Counter[int] = Counter()
        ranked = []
        for each in waiters:
            seen[each.lane] += 1
            ranked.append((self.rank(each, seen[each.lane]), each))
        return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]


def waiting(platform: str) -> QuerySet[QueueEntry]:
    """Those who have not waited too long, by turn."""
    in_time = QueueEntry.objects.filter(platform=platform, timeout_at__gt=Now())
    return in_time.order_by("turn", "id")


@Prepared
def _first_by_turn(platform: str) -> QuerySet[QueueEntry]:
    return waiting(platform)


def shares_of(platform: str, *, without_bot: int = 0) -> Shares:
    """What the clients hold on this platform; `without_bot`: as if this one had no slot."""
    slots = Slot.objects.filter(platform=platform, assigned_bot__isnull=False)
    held = slots.exclude(assigned_bot=without_bot).values_list(Coalesce("assigned_bot__client", 0))
    others = Client.objects.exclude(share=1).values_list("pk", "share")
    return Shares(held=dict(held.order_by().annotate(Count("id"))), share=dict(others))


def has_one_lane(platform: str) -> bool:
    """Whether all who wait are of one client: then the order is that of turns."""
    ends = waiting(platform).order_by().aggregate(low=Min("lane"), high=Max("lane"))
    return bool(ends["low"] == ends["high"])


def first_in_line(platform: str, count: int) -> list[int]:
    """The bots that are served next. The cost grows with the waiting clients, not with the line."""
    if has_one_lane(platform):
        return list(waiting(platform).values_list("bot_id", flat=True)[:count])
    firsts = _firsts_of_each(platform, count)
    return [each.bot_id for each in shares_of(platform).in_order(firsts)[:count]]


def whole_line(platform: str) -> Sequence[Waiter]:
    """All who wait, in the order in which they are served."""
    waiters = as_waiters(waiting(platform))
    return waiters if has_one_lane(platform) else shares_of(platform).in_order(waiters)


def has_others_first(bot: Bot) -> bool:
    """Whether any waiter goes before this bot, which is not in line."""
    first, lane, turn = _first_by_turn.first(bot.platform), lane_of(bot), turn_of(bot)
    if first is None:
        return False
    if first.lane == lane and first.turn <= turn:
        return True
    if waiting(bot.platform).filter(lane=lane, turn__lte=turn).exists():
        return True
    shares = shares_of(bot.platform, without_bot=bot.pk)
    mine = shares.rank(Waiter(lane=lane, turn=turn, entry_id=LAST), 1)
    heads = [each for each in _firsts_of_each(bot.platform, 1) if each.lane != lane]
    return any(shares.rank(each, 1) < mine for each in heads)


def line_ahead_of(bot: Bot) -> tuple[list[Waiter], int]:
    """Who would go before this bot if it joined the line now, and how many wait in all."""
    waiters = as_waiters(waiting(bot.platform))
    if not waiters:
        return [], 0
    mine = Waiter(lane=lane_of(bot), turn=turn_of(bot), entry_id=LAST)
    everyone = sorted([*waiters, mine], key=lambda each: (each.turn, each.entry_id))
    order = shares_of(bot.platform).in_order(everyone)
    return order[: order.index(mine)], len(waiters)


def lane_of(bot: Bot) -> int:
    return (bot.client_id or 0) if settings.TENANT_ISOLATION else 0


def turn_of(bot: Bot) -> datetime:
    turn: datetime = bot.created_at + bot.priority * ageing()
    return turn


def as_waiters(entries: QuerySet[QueueEntry]) -> list[Waiter]:
    rows = entries.values_list("lane", "turn", "id", "bot_id", "timeout_at")
    return [
        Waiter(lane=lane, turn=turn, entry_id=entry_id, bot_id=bot_id, timeout_at=timeout_at)
        for lane, turn, entry_id, bot_id, timeout_at in rows
    ]


def _firsts_of_each(platform: str, count: int) -> list[Waiter]:
    """The first so many of each client, by turn. Two queries, however many clients wait."""
    line = waiting(platform)
    of_client = Client.objects.filter(Exists(line.order_by().filter(lane=OuterRef("pk"))))
    lanes = [0, *of_client.values_list("pk", flat=True)]
    # A part for each client, which reads the beginning of its line in the index and no more.
    first, *others = (line.filter(lane=lane)[:count] for lane in lanes)
    firsts = as_waiters(first.union(*others, all=True))
    return sorted(firsts, key=lambda each: (each.turn, each.entry_id))
