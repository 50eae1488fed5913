"""A waiter's place in line, and how long it will wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from math import inf
from typing import Any, NamedTuple

from django.db.models import DateTimeField, ExpressionWrapper, Q, QuerySet, Subquery
from django.db.models.functions import Now

from bots.models import Bot
from core.prepared import Prepared
from pool.sharing.turns import waiting, whole_line
from pool.waiting.estimate import Outlook
from pool.waiting.measurements import Situation, measure_platform
from queues.models import QueueEntry
from slots.models import Pool

# For this many waiters ahead, check whether they will still be there at their turn.
LOOKED_AT = 1_000


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place in the platform's line, from 1, and the expected waits: for a slot, and until the
    bot has started in it. None: there is no estimate, because the platform is paused without an end
    or has no slot in service."""

    position: int
    wait_for_slot: timedelta | None
    estimated_wait: timedelta | None
    as_of: datetime
    gives_up_at: datetime
    paused: Pool | None
    coolify_away_since: datetime | None

    @property
    def slot_expected_at(self) -> datetime | None:
        return None if self.wait_for_slot is None else self.as_of + self.wait_for_slot

    @property
    def gives_up_before_its_turn(self) -> bool:
        """Whether its deadline is expected to pass before it gets a slot."""
        expected_at = self.slot_expected_at
        return expected_at is not None and expected_at > self.gives_up_at


class _Mine(NamedTuple):
    """A waiter's own entry, and the lowest and highest lane of its line."""

    entry_id: int
    turn: datetime
    timeout_at: datetime
    now: datetime
    low: int
    high: int


def place_in_line(bot: Bot) -> Place | None:
    """The place of a bot that waits; None if it does not."""
    found = _entry_of.rows(bot.pk, bot.platform)
    if not found:
        return None
    mine = _Mine(*found[0])
    ahead, others = _ahead_of(mine, bot.platform)
    seen = measure_platform(bot.platform)
    stays = [_seconds(until - mine.now) for until in ahead]
    wait = Outlook(seen.measured, seen.pool).wait_behind(stays, others=others)
    return _place(len(stays) + others + 1, wait, (mine.now, mine.timeout_at), seen=seen)


@Prepared
def _entry_of(bot_id: int, platform: str) -> QuerySet[QueueEntry, Any]:
    low, high = _lanes(platform)
    mine = QueueEntry.objects.filter(bot_id=bot_id).annotate(now=_CLOCK, low=low, high=high)
    return mine.values_list("id", "turn", "timeout_at", "now", "low", "high")


def _ahead_of(mine: _Mine, platform: str) -> tuple[list[datetime], int]:
    """Until when those ahead wait, and how many more there are."""
    if mine.low == mine.high:
        key = platform, mine.turn, mine.entry_id
        until = [row[0] for row in _deadlines_before.rows(*key)]
        return until, _before(*key).count() - len(until) if len(until) == LOOKED_AT else 0
    line = takewhile(lambda each: each.entry_id != mine.entry_id, whole_line(platform))
    found = [each.timeout_at for each in line if each.timeout_at is not None]
    return found[:LOOKED_AT], len(found[LOOKED_AT:])


def _before(platform: str, turn: datetime, entry_id: int) -> QuerySet[QueueEntry]:
    return waiting(platform).filter(Q(turn__lt=turn) | Q(turn=turn, pk__lt=entry_id))


@Prepared
def _deadlines_before(platform: str, turn: datetime, entry_id: int) -> QuerySet[QueueEntry, Any]:
    return _before(platform, turn, entry_id).values_list("timeout_at")[:LOOKED_AT]


def places_in_line(platform: str, *, limit: int | None = None) -> dict[int, Place]:
    """The places of all who wait for a platform, or of the first so many, by the bots' ids and
    in their order. As many queries for a thousand as for one."""
    rows = _rows(platform, limit)
    seen = measure_platform(platform)
    patience = (_seconds(until - now) for _, until, now in rows)
    waits = Outlook(seen.measured, seen.pool).waits(patience)
    return {
        bot_id: _place(position, wait, (now, until), seen=seen)
        for position, ((bot_id, until, now), wait) in enumerate(
            zip(rows, waits, strict=True), start=1
        )
    }


# Beside a row, so that its times and the clock are read together.
_CLOCK = ExpressionWrapper(Now(), output_field=DateTimeField())


def _rows(platform: str, limit: int | None) -> list[tuple[int, datetime, datetime]]:
    """Each waiter's bot and deadline, and the time now."""
    low, high = _lanes(platform)
    found = waiting(platform).annotate(now=_CLOCK, low=low, high=high)
    rows = list(found.values_list("bot_id", "timeout_at", "now", "low", "high")[:limit])
    if not rows or rows[0][3] == rows[0][4]:
        return [row[:3] for row in rows]
    now, line = rows[0][2], whole_line(platform)[:limit]
    return [(each.bot_id, each.timeout_at, now) for each in line if each.timeout_at is not None]


def _lanes(platform: str) -> tuple[Subquery, Subquery]:
    """The lowest and the highest lane: the same if one client waits alone (pool.sharing.turns)."""
    line = waiting(platform).values("lane")
    return Subquery(line.order_by("lane")[:1]), Subquery(line.order_by("-lane")[:1])


def _seconds(left: timedelta) -> float:
    return left.total_seconds()


def _place(position: int, wait: float, times: Sequence[datetime], *, seen: Situation) -> Place:
    for_slot = max(wait, seen.pause)
    as_of, gives_up_at = times
    return Place(
        position=position,
        wait_for_slot=_duration(for_slot),
        estimated_wait=expected_wait(wait, seen=seen),
        as_of=as_of,
        gives_up_at=gives_up_at,
        paused=seen.paused,
        coolify_away_since=seen.coolify_away_since,
    )


def expected_wait(wait: float, *, seen: Situation) -> timedelta | None:
    """Until a bot runs that waits so many seconds for a slot; None without an estimate."""
    return _duration(max(wait, seen.pause) + seen.measured.start)


def _duration(seconds: float) -> timedelta | None:
    return None if seconds == inf else timedelta(seconds=seconds)
