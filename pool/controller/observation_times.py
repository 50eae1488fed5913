"""When Coolify is worth a look: two calls of a small budget, so only if they can tell something.

A bot that calls from its container ends the wait without any look. So a start is looked at once
it should be over, and a stop a little after it was asked for, sooner where a bot waits for the
slot. Then the pauses grow with its age, up to the pace at which the reconciler looks anyway.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from pool.controller.images import pulls_of_the_past
from queues.models import QueueEntry
from slots.deployment import UNDER_WAY, Deployment, DeploymentStatus
from slots.models import Slot
from slots.status import SlotStatus


@dataclass(frozen=True)
class Question:
    """Something that a look can tell: for the first time after `first`, and then again and again.

    The pauses grow with its age: by `growth` of it, from `shortest` to the reconciler's pace, or
    twice DEPLOY_POLL_INTERVAL where that is less.
    """

    since: datetime
    first: timedelta
    shortest: timedelta
    growth: float = 1.0

    def is_due(self, *, now: datetime, last_look: datetime | None) -> bool:
        from_when = self.since + self.first
        if last_look is None or last_look < from_when:
            return now >= from_when
        longest = min(settings.RECONCILE_INTERVAL, 2 * settings.DEPLOY_POLL_INTERVAL)
        pause = min((last_look - self.since) * self.growth, longest)
        return now - last_look >= max(self.shortest, pause)


def look_is_due(*, now: datetime, last_look: datetime | None) -> bool:
    return any(question.is_due(now=now, last_look=last_look) for question in _questions())


def _questions() -> Iterator[Question]:
    seldom, soon = settings.DEPLOY_POLL_INTERVAL, settings.WATCH_INTERVAL
    for since in _starts():
        yield Question(since, min(settings.EXPECTED_START, 4 * seldom), seldom, growth=0.25)
    for since in _removals_of_failed():
        yield Question(since, soon, soon)
    awaited = set(QueueEntry.objects.order_by().values_list("platform", flat=True).distinct())
    for platform, since in _stops():
        pause = soon if platform in awaited else seldom
        yield Question(since, pause, pause)
    for since in pulls_of_the_past().values_list("status_since", flat=True):
        yield Question(since, timedelta(), seldom)


def _starts() -> Iterator[datetime]:
    under_way = Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS, condemned="")
    yield from under_way.values_list("status_since", flat=True)


def _removals_of_failed() -> Iterator[datetime]:
    failed = Deployment.objects.filter(~Q(condemned=""), status__in=UNDER_WAY)
    for asked_at in failed.values_list("slot__stop_asked_at", flat=True):
        if asked_at is not None:
            yield asked_at


def _stops() -> Iterator[tuple[str, datetime]]:
    stopping = Slot.objects.filter(status=SlotStatus.STOPPING)
    for platform, asked_at in stopping.values_list("platform", "stop_asked_at"):
        if asked_at is not None:
            yield platform, asked_at
