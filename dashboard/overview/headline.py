"""The state of everything in one line, and the waiters that will give up before their turn."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from bots.models import Bot
from bots.status import TERMINAL, BotStatus, Platform
from dashboard.overview.cards import Card
from pool.waiting.position import Place, places_in_line

# So many waiters of a platform are looked at.
LOOKED_AT = 200


@dataclass(frozen=True, kw_only=True)
class Line:
    """Who waits for a platform: when the first gets a slot, and how many will not in time."""

    platform: Platform
    next_free_at: datetime | None
    at_risk: int


@dataclass(frozen=True, kw_only=True)
class Headline:
    in_call: int
    joining: int
    starting: int
    waiting: int
    free: int
    next_free_at: datetime | None


def waiting_lines(cards: list[Card]) -> list[Line]:
    """Costs nothing for platforms for which no bot waits."""
    return [_line(card.platform) for card in cards if card.waiting]


def _line(platform: Platform) -> Line:
    places: list[Place] = list(places_in_line(platform, limit=LOOKED_AT).values())
    return Line(
        platform=platform,
        next_free_at=places[0].slot_expected_at if places else None,
        at_risk=sum(place.gives_up_before_its_turn for place in places),
    )


def headline(cards: list[Card], lines: list[Line]) -> Headline:
    statuses = Bot.objects.exclude(status__in=TERMINAL).values_list("status", flat=True)
    counted = Counter(statuses)
    times = [line.next_free_at for line in lines if line.next_free_at is not None]
    joining = (BotStatus.JOINING_CALL, BotStatus.IN_WAITING_ROOM, BotStatus.LEAVING)
    return Headline(
        in_call=counted[BotStatus.IN_CALL],
        joining=sum(counted[status] for status in joining),
        starting=counted[BotStatus.DEPLOYING],
        waiting=sum(card.waiting for card in cards),
        free=sum(card.free for card in cards),
        next_free_at=min(times, default=None),
    )
