"""The history page and the rollups that it reads."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from botpool.telemetry.samples import roll_up, sample_pools
from bots.models import Bot
from dashboard.history.points import RANGES, history
from dashboard.models import PoolRollup, PoolSample
from tests.dashboard.populated import ask, fail, run

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def this_hour():
    return timezone.now().replace(minute=0, second=0, microsecond=0)


def sample(minute, platform="zoom", **fields):
    return PoolSample.objects.create(platform=platform, minute=minute, **fields)


def lines(answer):
    return b"".join(answer.streaming_content).decode().splitlines()


# --- Samples -----------------------------------------------------------------------------------


def test_a_sample_counts_what_happened_in_the_minute_before(settings):
    settings.MAX_POOL_SIZES = {"google-meet": 7, "teams": 2, "zoom": 3}
    bot = ask()
    run(bot)
    fail(bot)
    # As if all of it had happened in the minute before.
    before = timezone.now().replace(second=0, microsecond=0) - timedelta(seconds=30)
    Bot.objects.update(created_at=before)
    bot.deployments.update(ended_at=before, status="finished")
    change_history(at=before)
    sample_pools()
    row = PoolSample.objects.get(platform="google-meet")
    assert (row.capacity, row.requested, row.warm_starts) == (7, 1, 1)
    assert row.failures == {"container_failed": 1}
    assert PoolSample.objects.get(platform="zoom").failures == {}


def change_history(*, at):
    """The history is append-only: only a test may change it."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE bots_botevent SET at = %s", [at])
        cursor.execute("SET LOCAL session_replication_role = origin")


# --- Rollups -----------------------------------------------------------------------------------


def test_minutes_add_up_to_hours_and_days():
    hour = this_hour()
    sample(hour, busy=4, capacity=10, waiting=1, wait_p50=2.0, wait_p95=5.0, warm_starts=3)
    sample(hour + MINUTE, busy=5, deploying=1, capacity=12, waiting=7, wait_p95=9.0, requested=2)
    roll_up()
    for period in ("hour", "day"):
        row = PoolRollup.objects.get(period=period)
        assert (row.in_use, row.capacity, row.waiting) == (5.0, 12, 7.0)
        assert (row.wait_p50, row.wait_p95) == (2.0, 9.0)
        assert (row.warm_starts, row.requested) == (3, 2)


def test_failures_add_up_by_cause():
    hour = this_hour()
    sample(hour, failures={"queue_timeout": 1, "container_failed": 2})
    sample(hour + MINUTE, failures={"queue_timeout": 4})
    roll_up()
    assert PoolRollup.objects.get(period="hour").failures == {
        "queue_timeout": 5,
        "container_failed": 2,
    }


def test_an_hour_that_is_not_over_is_written_again():
    sample(this_hour(), requested=1)
    roll_up()
    sample(this_hour() + MINUTE, requested=1)
    roll_up()
    assert PoolRollup.objects.get(period="hour").requested == 2
    assert PoolRollup.objects.get(period="day").requested == 2


def test_old_minutes_go_and_their_hours_stay():
    long_ago = timezone.now() - timedelta(days=3)
    sample(long_ago)
    PoolRollup.objects.create(
        platform="zoom",
        period="hour",
        at=long_ago,
        in_use=1,
        capacity=1,
        waiting=0,
        requested=0,
        warm_starts=0,
        cold_starts=0,
    )
    sample_pools()
    assert not PoolSample.objects.filter(minute=long_ago).exists()
    assert PoolRollup.objects.filter(at=long_ago).exists()


# --- The page ----------------------------------------------------------------------------------


def test_platforms_add_up():
    minute = timezone.now().replace(second=0, microsecond=0) - 5 * MINUTE
    sample(minute, "zoom", busy=2, capacity=5, waiting=1, wait_p95=3.0, requested=1)
    sample(minute, "teams", busy=3, capacity=10, waiting=0, wait_p95=8.0, requested=2)
    [point] = history(RANGES["1h"], platform="")
    assert (point.in_use, point.capacity, point.waiting) == (5.0, 15, 1)
    assert (point.wait_p95, point.requested) == (8.0, 3)
    [zoom] = history(RANGES["1h"], platform="zoom")
    assert (zoom.in_use, zoom.capacity) == (2.0, 5)


@pytest.mark.parametrize("name", list(RANGES))
def test_each_range_has_a_page_with_data_and_a_table(viewer, name):
    sample(timezone.now() - 2 * MINUTE, busy=3, failures={"queue_timeout": 2})
    roll_up()
    page = viewer.get(f"/history/?range={name}").text
    data = json.loads(page.partition('type="application/json">')[2].partition("</script>")[0])
    # Between the two ends of the range, which have no values.
    assert data["in_use"] == [None, 3.0, None]
    assert data["causes"] == [{"name": "Waited too long", "values": [None, 2, None]}]
    assert page.count('<td data-label="From">') == 1


def test_an_empty_history_says_so(viewer):
    assert "No samples in this time." in viewer.get("/history/").text


@pytest.mark.parametrize("query", ["range=5y", "platform=skype"])
def test_an_unknown_range_or_platform_is_not_found(viewer, query):
    assert viewer.get(f"/history/?{query}").status_code == 404


def test_the_history_as_csv(viewer):
    sample(timezone.now() - 2 * MINUTE, busy=3, failures={"queue_timeout": 2})
    header, row = lines(viewer.get("/history/?range=1h&format=csv"))
    assert header.startswith("at,in_use,capacity,waiting,wait_p50")
    assert header.endswith("failed,queue_timeout")
    assert row.endswith(",2,2")
