"""Coolify's nightly clean-up: how long an image is trusted, and a week of nights with it.

The week is a model: starts, meetings and clean-ups on one server at random times, and the rule by
which starts lead a pull or go ahead. Each seed is a different week.
"""

from datetime import datetime, timedelta

import pytest

from servers.cleanup import trusted_until
from tests.servers.week import MIDNIGHT, Week

MARGIN = timedelta(minutes=5)
TIMES = [timedelta(0)]


def at(**since_midnight) -> datetime:
    return MIDNIGHT + timedelta(**since_midnight)


@pytest.mark.parametrize(
    ("found", "until"),
    [
        (at(hours=12), at(hours=23, minutes=55)),
        (at(minutes=5), at(hours=23, minutes=55)),
        # Around a clean-up, an image may go at any moment.
        (at(minutes=4), at(minutes=4)),
        (at(seconds=0), at(seconds=0)),
        (at(minutes=-5), at(minutes=-5)),
        (at(minutes=-6), at(minutes=-5)),
    ],
)
def test_an_image_is_trusted_until_the_next_clean_up_comes_near(found, until):
    assert trusted_until(found, times=TIMES, margin=MARGIN) == until


def test_the_nearest_of_several_clean_ups_counts():
    times = [timedelta(hours=3), timedelta(hours=15)]
    assert trusted_until(at(hours=4), times=times, margin=MARGIN) == at(hours=14, minutes=55)
    assert trusted_until(at(hours=16), times=times, margin=MARGIN) == at(hours=26, minutes=55)


def test_without_clean_ups_an_image_stays():
    assert trusted_until(at(hours=4), times=[], margin=MARGIN) > at(days=300)


def _by_clean_up(now: float) -> float:
    until = trusted_until(MIDNIGHT + timedelta(seconds=now), times=TIMES, margin=MARGIN)
    return (until - MIDNIGHT).total_seconds()


def test_no_cold_pulls_overlap_in_fifty_weeks_with_nightly_clean_up():
    assert [Week(seed, trusts=_by_clean_up).run() for seed in range(50)] == [0] * 50


def test_a_clock_alone_lets_cold_pulls_overlap():
    """The model can fail: with the rule of twelve hours, it does."""
    assert sum(Week(seed, trusts=lambda now: now + 12 * 3_600).run() for seed in range(50)) > 0
