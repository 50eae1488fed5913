"""The steps of a bot's life with how long each took, and how long it usually takes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bots.models import Bot, BotEvent
from bots.status import BotStatus
from pool.waiting.measurements import PULL
from slots.deployment import Deployment, DeploymentStatus

Typical = dict[str, timedelta]


@dataclass(frozen=True, kw_only=True)
class Step:
    """`end` is None while the step goes on. `x` and `width` are percentages of the bar."""

    name: str
    tone: str
    begin: datetime
    end: datetime | None
    typical: timedelta | None
    note: str = ""
    x: float = 0.0
    width: float = 0.0

    @property
    def lasted(self) -> timedelta | None:
        return None if self.end is None else self.end - self.begin

    @property
    def is_late(self) -> bool:
        """Whether it took much longer than usual."""
        if self.lasted is None or self.typical is None:
            return False
        return self.lasted > 2 * self.typical + timedelta(seconds=5)


def waterfall_of(
    bot: Bot,
    events: list[BotEvent],
    deployments: list[Deployment],
    *,
    typical: Typical,
    now: datetime,
) -> list[Step]:
    """Queue, image, build place and container of each attempt, then the meeting."""
    steps = [*_starts(bot, deployments, typical), *_meeting(bot, events, typical)]
    return _scaled(steps, until=_end_of_start(bot, events) or now, now=now)


def _end_of_start(bot: Bot, events: list[BotEvent]) -> datetime | None:
    """The bars show the way into the call; a long call would leave no room for it."""
    return _first(events, BotStatus.IN_CALL) or bot.ended_at


def _first(events: list[BotEvent], status: BotStatus) -> datetime | None:
    moves = (event.at for event in events if event.from_status != event.to_status == status)
    return next(moves, None)


# --- Until the container runs -----------------------------------------------------------------


def _starts(bot: Bot, deployments: list[Deployment], typical: Typical) -> Iterator[Step]:
    begin = bot.created_at
    for number, each in enumerate(deployments, start=1):
        note = f"attempt {number}, {each.slot_name}" if len(deployments) > 1 else ""
        yield _step("Queued", "waiting", begin, each.created_at, typical, note=note)
        yield from _start(each, typical)
        begin = each.ended_at or each.created_at
    waits_again = bot.status in (BotStatus.PENDING, BotStatus.QUEUED)
    if waits_again or not deployments:
        end = None if waits_again else bot.ended_at
        yield _step("Queued", "waiting", begin, end, typical)


def _start(each: Deployment, typical: Typical) -> Iterator[Step]:
    """A step that was not reached is left out."""
    ended = each.ended_at
    if each.image_at is not None or ended is None:
        pulls = "waited for another's pull" if each.waited_for_image else ""
        yield _step("Image", "waiting", each.created_at, each.image_at, typical, note=pulls)
    if each.image_at is not None:
        place_end = each.place_at or ended
        yield _step("Build place", "waiting", each.image_at, place_end, typical)
    if each.place_at is not None or (each.image_at is None and ended is not None):
        yield _container(each, typical)


def _container(each: Deployment, typical: Typical) -> Step:
    begin = each.place_at or each.created_at
    note = "pulled the image" if each.leader else ""
    step = _step("Container", "deploying", begin, each.ended_at, typical, note=note)
    if each.leader:
        step = replace(step, typical=typical.get(PULL))
    is_failed = each.status in _FAILED
    return replace(step, tone="error", note="failed") if is_failed else step


_FAILED = (DeploymentStatus.FAILED, DeploymentStatus.TIMED_OUT)


# --- In the meeting ---------------------------------------------------------------------------


def _meeting(bot: Bot, events: list[BotEvent], typical: Typical) -> Iterator[Step]:
    joins = _first(events, BotStatus.JOINING_CALL)
    if joins is None:
        return
    in_call = _first(events, BotStatus.IN_CALL)
    yield _step("Joining", "joining", joins, in_call or bot.ended_at, typical)
    if in_call is not None:
        yield _step("In call", "busy", in_call, bot.ended_at, typical)


def _step(
    name: str,
    tone: str,
    begin: datetime,
    end: datetime | None,
    typical: Typical,
    *,
    note: str = "",
) -> Step:
    usual = typical.get(name)
    return Step(name=name, tone=tone, begin=begin, end=end, typical=usual, note=note)


def _scaled(steps: list[Step], *, until: datetime, now: datetime) -> list[Step]:
    if not steps:
        return []
    begin = steps[0].begin
    whole = max((until - begin).total_seconds(), 0.001)

    def percent(moment: datetime) -> float:
        share = (moment - begin).total_seconds() / whole
        return round(100 * min(max(share, 0.0), 1.0), 2)

    return [
        replace(
            step,
            x=min(percent(step.begin), 99.5),
            width=max(percent(step.end or now) - percent(step.begin), 0.5),
        )
        for step in steps
    ]
