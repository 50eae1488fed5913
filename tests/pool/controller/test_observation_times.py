"""When Coolify is looked at: as seldom as can be, and soon where somebody waits."""

from datetime import UTC, datetime, timedelta

import pytest

from pool.controller.observation_times import look_is_due
from slots.deployment import Deployment
from slots.models import Slot
from tests.factories import BotFactory, DeploymentFactory, QueueEntryFactory, SlotFactory

pytestmark = pytest.mark.django_db

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def intervals(settings):
    settings.EXPECTED_START = timedelta(seconds=60)
    settings.DEPLOY_POLL_INTERVAL = timedelta(seconds=15)
    settings.WATCH_INTERVAL = timedelta(seconds=5)
    settings.RECONCILE_INTERVAL = timedelta(seconds=30)


def looks(*, minutes: int = 3) -> list[int]:
    """At which seconds Coolify is looked at if nothing changes and nobody else looks."""
    taken, last = [], None
    for second in range(minutes * 60):
        now = BEGIN + timedelta(seconds=second)
        if look_is_due(now=now, last_look=last):
            taken.append(second)
            last = now
    return taken


def start_under_way() -> Deployment:
    return DeploymentFactory(status="in_progress", status_since=BEGIN)


def stop_under_way() -> Slot:
    return SlotFactory(status="stopping", previous_status="busy", stop_asked_at=BEGIN)


def test_nothing_under_way_is_no_reason_to_look():
    SlotFactory()
    assert looks() == []


def test_a_start_is_looked_at_once_it_should_be_over_and_less_and_less_often():
    start_under_way()
    assert looks() == [60, 75, 94, 118, 148, 178]


def test_a_shorter_poll_interval_makes_looks_at_starts_sooner(settings):
    settings.DEPLOY_POLL_INTERVAL = timedelta(seconds=5)
    start_under_way()
    assert looks(minutes=1) == [20, 25, 32, 40, 50]


def test_a_stop_that_nobody_waits_for_is_looked_at_seldom():
    stop_under_way()
    assert looks(minutes=2) == [15, 30, 60, 90]


def test_a_stop_that_somebody_waits_for_is_looked_at_soon():
    stop_under_way()
    QueueEntryFactory(queued_at=BEGIN)
    assert looks(minutes=2) == [5, 10, 20, 40, 70, 100]


def test_who_waits_for_another_platform_is_no_reason_to_hurry():
    stop_under_way()
    QueueEntryFactory(bot=BotFactory(platform="zoom"), queued_at=BEGIN)
    assert looks(minutes=1) == [15, 30]


def test_many_starts_share_their_looks():
    for _ in range(20):
        start_under_way()
    assert looks() == [60, 75, 94, 118, 148, 178]


def test_a_look_that_the_reconciler_took_is_not_taken_again():
    start_under_way()
    now = BEGIN + timedelta(seconds=70)
    assert not look_is_due(now=now, last_look=now - timedelta(seconds=9))
