"""A waiter's place in line, and how long it will wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from django.db.models import DateTimeField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from bots.models import Bot
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

    @property
    def slot_expected_at(self) -> datetime | None:
        return None if self.wait_for_slot is None else self.as_of + self.wait_for_slot


def place_in_line(bot: Bot) -> Place | None:
    """The place of a bot that waits; None if it does not."""
    mine = QueueEntry.objects.filter(bot=bot).annotate(now=_CLOCK).first()
    if mine is None:
        return None
    now: datetime = mine.now
    before = Q(turn__lt=mine.turn) | Q(turn=mine.turn, pk__lt=mine.pk)
    ahead = _waiting(bot.platform).filter(before)
    stays = [
        _seconds(until - now) for until in ahead.values_list("timeout_at", flat=True)[:LOOKED_AT]
    ]
    others = ahead.count() - len(stays) if len(stays) == LOOKED_AT else 0
    seen = measure_platform(bot.platform)
    wait = Outlook(seen.measured, seen.pool).wait_behind(stays, others=others)
    return _place(len(stays) + others + 1, wait, (now, mine.timeout_at), seen=seen)


def places_in_line(platform: str, *, limit: int | None = None) -> dict[int, Place]:
    """The places of all who wait for a platform, or of the first so many, by the bots' ids and
    in their order. As many queries for a thousand as for one."""
    rows = list(_waiting(platform).values_list("bot_id", "timeout_at", _CLOCK)[:limit])
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


def _waiting(platform: str) -> QuerySet[QueueEntry]:
    in_time = QueueEntry.objects.filter(platform=platform, timeout_at__gt=Now())
    return in_time.order_by("turn", "pk")


def _seconds(left: timedelta) -> float:
    return left.total_seconds()


def _place(position: int, wait: float, times: Sequence[datetime], *, seen: Situation) -> Place:
    wait = max(wait, seen.pause)
    as_of, gives_up_at = times
    return Place(
        position=position,
        wait_for_slot=_duration(wait),
        estimated_wait=_duration(wait + seen.measured.start),
        as_of=as_of,
        gives_up_at=gives_up_at,
        paused=seen.paused,
    )


def _duration(seconds: float) -> timedelta | None:
    return None if seconds == inf else timedelta(seconds=seconds)
