"""When to observe Coolify: it costs two calls of a small budget, so only to answer a question.

A question is a start or a stop that is not over yet. It is asked first some time after it began,
then in pauses that grow with its age. While the budget is quiet, these are short: a second after a
start or stop, then two, four. Under pressure one observation answers many questions, and each bot
costs a few calls at most. A bot that calls from its container needs no observation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from coolify.budget.report import budget_report
from queues.models import QueueEntry
from slots.deployment import Deployment, DeploymentStatus
from slots.models import Slot
from slots.status import SlotStatus

# The budget is quiet while less than the first share is spent, tight above the second.
QUIET, TIGHT = 0.3, 0.6


@dataclass(frozen=True)
class Question:
    """Something that an observation can answer: first after `first`, then in pauses that grow with
    its age by `growth`. A pause is at least `shortest`, and at most `longest_pause`."""

    since: datetime
    first: timedelta
    shortest: timedelta
    growth: float = 1.0

    def is_due(self, *, now: datetime, last: datetime | None) -> bool:
        from_when = self.since + self.first
        if last is None or last < from_when:
            return now >= from_when
        pause = min((last - self.since) * self.growth, longest_pause())
        return now - last >= max(self.shortest, pause)


def longest_pause() -> timedelta:
    return min(settings.RECONCILE_INTERVAL, 2 * settings.DEPLOY_POLL_INTERVAL)


def observation_is_due(*, now: datetime, last: datetime | None) -> bool:
    questions = list(_questions(pressure()))
    return any(question.is_due(now=now, last=last) for question in questions)


def pressure() -> float:
    """0 while the budget is quiet, 1 when it is tight."""
    report = budget_report()
    share = report.spent / report.limit if report.limit else 1.0
    return min(max((share - QUIET) / (TIGHT - QUIET), 0.0), 1.0)


def _questions(pressure: float) -> Iterator[Question]:
    seldom, soon = settings.DEPLOY_POLL_INTERVAL, settings.WATCH_INTERVAL
    for since in _starts():
        first = min(settings.EXPECTED_START, 4 * seldom)
        yield _question(since, first, seldom, pressure=pressure, growth=0.25)
    awaited = set(QueueEntry.objects.order_by().values_list("platform", flat=True).distinct())
    for platform, since in _stops():
        pause = soon if platform in awaited else seldom
        yield _question(since, pause, pause, pressure=pressure)


def _question(
    since: datetime,
    first: timedelta,
    shortest: timedelta,
    *,
    pressure: float,
    growth: float = 1.0,
) -> Question:
    """Interpolate between the pauses of a quiet budget and those under pressure."""
    quick = settings.OBSERVE_SOONEST
    return Question(
        since,
        quick + (max(first, quick) - quick) * pressure,
        quick + (max(shortest, quick) - quick) * pressure,
        growth=1.0 + (growth - 1.0) * pressure,
    )


def _starts() -> Iterator[datetime]:
    under_way = Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS)
    yield from under_way.values_list("status_since", flat=True)


def _stops() -> Iterator[tuple[str, datetime]]:
    stopping = Slot.objects.filter(status=SlotStatus.STOPPING, stop_asked_at__isnull=False)
    for platform, asked_at in stopping.values_list("platform", "stop_asked_at"):
        assert asked_at is not None
        yield platform, asked_at
