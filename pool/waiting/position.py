"""Where a waiter stands, and how long it will be."""

from dataclasses import dataclass
from datetime import timedelta
from math import inf

from bots.models import Bot
from core.sql import fetch_all, fetch_one
from pool.waiting.estimate import Outlook
from pool.waiting.measurements import Situation, look_at_platform

# Of so many ahead it is asked whether they will still be there at their turn.
LOOKED_AT = 1_000


@dataclass(frozen=True, kw_only=True)
class Place:
    """The true place in the platform's order, from 1, and what is to be expected: the wait for a
    slot, and with it the start of the bot in it. None: nobody can say, because the platform is
    paused without an end or has no slot in service."""

    position: int
    wait_for_slot: timedelta | None
    estimated_wait: timedelta | None


# How many are ahead of a waiter, and how long the first of them will stay.
_AHEAD = """
SELECT
    (
        SELECT count(*) FROM queues_queueentry AS ahead
        WHERE ahead.platform = mine.platform AND (ahead.turn, ahead.id) < (mine.turn, mine.id)
        AND ahead.timeout_at > clock_timestamp()
    ),
    ARRAY(
        SELECT extract(epoch FROM ahead.timeout_at - clock_timestamp())::float8
        FROM queues_queueentry AS ahead
        WHERE ahead.platform = mine.platform AND (ahead.turn, ahead.id) < (mine.turn, mine.id)
        AND ahead.timeout_at > clock_timestamp()
        ORDER BY ahead.turn, ahead.id
        LIMIT %(looked_at)s
    )
FROM queues_queueentry AS mine
WHERE mine.bot_id = %(bot)s
"""

_PATIENCE = """
SELECT bot_id, extract(epoch FROM timeout_at - clock_timestamp())::float8
FROM queues_queueentry
WHERE platform = %(platform)s AND timeout_at > clock_timestamp()
ORDER BY turn, id
LIMIT %(limit)s
"""


def place_in_line(bot: Bot) -> Place | None:
    """The place of a bot that waits; None if it does not."""
    row = fetch_one(_AHEAD, {"bot": bot.pk, "looked_at": LOOKED_AT})
    if row is None:
        return None
    ahead, stays = row
    seen = look_at_platform(bot.platform)
    wait = Outlook(seen.measured, seen.pool).wait_behind(stays, others=ahead - len(stays))
    return _place(ahead + 1, wait, seen=seen)


def places_in_line(platform: str, *, limit: int | None = None) -> dict[int, Place]:
    """The places of all who wait for a platform, or of the first so many, by the bots' ids and
    in their order. As many queries for a thousand as for one."""
    rows = fetch_all(_PATIENCE, {"platform": platform, "limit": limit})
    seen = look_at_platform(platform)
    waits = Outlook(seen.measured, seen.pool).waits(stays for _, stays in rows)
    return {
        bot_id: _place(position, wait, seen=seen)
        for position, ((bot_id, _), wait) in enumerate(zip(rows, waits, strict=True), start=1)
    }


def _place(position: int, wait: float, *, seen: Situation) -> Place:
    wait = max(wait, seen.pause)
    return Place(
        position=position,
        wait_for_slot=_duration(wait),
        estimated_wait=_duration(wait + seen.measured.start),
    )


def _duration(seconds: float) -> timedelta | None:
    return None if seconds == inf else timedelta(seconds=seconds)
