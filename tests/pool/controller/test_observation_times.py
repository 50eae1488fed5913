"""When Coolify is observed: soon while the budget is quiet, seldom when it is tight."""

from datetime import UTC, datetime, timedelta

import pytest

from coolify.models import Budget
from pool.controller import observation_times
from pool.controller.observation_times import observation_is_due
from slots.deployment import Deployment
from slots.models import Slot
from tests.factories import BotFactory, DeploymentFactory, QueueEntryFactory, SlotFactory

pytestmark = pytest.mark.django_db

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def intervals(settings):
    settings.OBSERVE_SOONEST = timedelta(seconds=1)
    settings.EXPECTED_START = timedelta(seconds=60)
    settings.DEPLOY_POLL_INTERVAL = timedelta(seconds=15)
    settings.WATCH_INTERVAL = timedelta(seconds=5)
    settings.RECONCILE_INTERVAL = timedelta(seconds=30)


@pytest.fixture
def tight(monkeypatch):
    monkeypatch.setattr(observation_times, "pressure", lambda: 1.0)


def observations(*, minutes: int = 3) -> list[int]:
    """The seconds at which Coolify is observed if nothing changes and no other job observes it."""
    taken, last = [], None
    for second in range(minutes * 60):
        now = BEGIN + timedelta(seconds=second)
        if observation_is_due(now=now, last=last):
            taken.append(second)
            last = now
    return taken


def start_under_way() -> Deployment:
    return DeploymentFactory(status="in_progress", status_since=BEGIN)


def stop_under_way() -> Slot:
    return SlotFactory(status="stopping", previous_status="busy", stop_asked_at=BEGIN)


def test_nothing_under_way_is_no_reason_to_observe():
    SlotFactory()
    assert observations() == []


# --- While the budget is quiet ---


def test_a_start_is_observed_after_a_second_and_then_in_doubling_pauses():
    start_under_way()
    assert observations(minutes=2) == [1, 2, 4, 8, 16, 32, 62, 92]


def test_a_stop_is_observed_after_a_second_and_then_in_doubling_pauses():
    stop_under_way()
    assert observations(minutes=1) == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    ("spent", "expected"), [(0, 0.0), (54, 0.0), (81, 0.5), (108, 1.0), (180, 1.0)]
)
def test_the_pressure_is_what_is_spent_of_the_budget(settings, monkeypatch, spent, expected):
    settings.COOLIFY_RATE_LIMIT = 180
    now = int(datetime.now(UTC).timestamp())
    Budget.objects.update_or_create(pk=1, defaults={"ring": [spent], "ring_second": now})
    assert observation_times.pressure() == pytest.approx(expected)


# --- When it is tight ---


def test_a_start_is_observed_once_it_should_be_over_and_less_and_less_often(tight):
    start_under_way()
    assert observations() == [60, 75, 94, 118, 148, 178]


def test_a_shorter_poll_interval_makes_observations_of_starts_sooner(tight, settings):
    settings.DEPLOY_POLL_INTERVAL = timedelta(seconds=5)
    start_under_way()
    assert observations(minutes=1) == [20, 25, 32, 40, 50]


def test_a_stop_that_no_bot_waits_for_is_observed_seldom(tight):
    stop_under_way()
    assert observations(minutes=2) == [15, 30, 60, 90]


def test_a_stop_that_a_bot_waits_for_is_observed_soon(tight):
    stop_under_way()
    QueueEntryFactory(queued_at=BEGIN)
    assert observations(minutes=2) == [5, 10, 20, 40, 70, 100]


def test_a_bot_that_waits_for_another_platform_is_no_reason_to_hurry(tight):
    stop_under_way()
    QueueEntryFactory(bot=BotFactory(platform="zoom"), queued_at=BEGIN)
    assert observations(minutes=1) == [15, 30]


def test_many_starts_share_their_observations(tight):
    for _ in range(20):
        start_under_way()
    assert observations() == [60, 75, 94, 118, 148, 178]


def test_an_observation_by_the_reconciler_is_not_repeated(tight):
    start_under_way()
    now = BEGIN + timedelta(seconds=70)
    assert not observation_is_due(now=now, last=now - timedelta(seconds=9))
