from datetime import timedelta

import pytest

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from pool.lifecycle import end_bot, get_slot_for_bot, handle_slot_error
from pool.sweep import sweep_queue
from pool.waiting.statistics import report_queue
from tests.factories import SlotFactory
from tests.queued import ask, pool_of, time_passes

pytestmark = pytest.mark.django_db


def report(platform=Platform.GOOGLE_MEET, **options):
    return next(r for r in report_queue(**options) if r.platform == platform)


@pytest.fixture(autouse=True)
def no_slots(settings):
    pool_of(settings, 0)


def test_there_is_one_for_each_platform_even_before_anything_happened():
    assert [r.platform for r in report_queue()] == Platform.values
    assert (report().waiting, report().oldest_wait, report().timed_out_share) == (0, None, None)


def test_it_reports_the_age_of_the_oldest_waiter():
    time_passes(ask(), seconds=100)
    time_passes(ask(), seconds=200)
    assert report().waiting == 2
    assert timedelta(seconds=200) <= report().oldest_wait < timedelta(seconds=260)


def test_one_that_lost_its_slot_waits_since_then():
    bot = ask()
    time_passes(bot, seconds=200)
    SlotFactory()
    sweep_queue()
    handle_slot_error(
        get_slot_for_bot(bot),
        "It failed",
        cause=FailureCause.CONTAINER_FAILED,
        actor="test",
        place_again=True,
    )
    assert report().waiting == 1
    assert report().oldest_wait < timedelta(seconds=60)


def test_it_reports_how_long_served_bots_waited():
    for seconds in (10, 20, 30):
        time_passes(ask(), seconds=seconds)
    SlotFactory.create_batch(3)
    sweep_queue()
    told = report()
    assert told.served == 3
    assert timedelta(seconds=20) <= told.wait_median < timedelta(seconds=60)
    assert told.wait_median < told.wait_p90 < told.wait_p99


def test_it_reports_the_share_of_bots_that_waited_in_vain():
    ask(queue_timeout=timedelta(microseconds=1))
    sweep_queue()
    for _ in range(3):
        end_bot(ask(), Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    told = report()
    assert (told.timed_out, told.cancelled, told.timed_out_share) == (1, 3, 0.25)


def test_what_ended_before_the_period_is_not_in_it():
    ask(queue_timeout=timedelta(microseconds=1))
    sweep_queue()
    assert report(period=timedelta()).timed_out == 0


def test_each_platform_has_its_own_report():
    ask(Platform.ZOOM)
    assert (report().waiting, report(Platform.ZOOM).waiting) == (0, 1)
