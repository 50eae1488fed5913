"""Coolify's nightly clean-up: how long an image is trusted, and a week of nights with it.

The week is a model: starts, meetings and clean-ups on one server at random times, and the rule by
which starts lead a pull or go ahead. Each seed is a different week.
"""

import heapq
import random
from datetime import UTC, datetime, timedelta

import pytest

from servers.cleanup import trusted_until

MIDNIGHT = datetime(2026, 11, 17, tzinfo=UTC)
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


class Week:
    """One image on one server. Times in seconds."""

    COLD, WARM, CHECKED_AFTER, DAY = 420.0, 25.0, 15.0, 86_400.0

    def __init__(self, seed: int, *, trusts) -> None:
        self.random, self.trusts = random.Random(seed), trusts
        self.events: list[tuple[float, int, object]] = []
        self.count = 0
        self.present = self.known = False
        self.trusted_until = -1.0
        self.containers = 0
        self.pulling = False  # the leader's place
        self.cold_pulls = 0
        self.overlaps = 0
        self.waiting: list[float] = []

    def later(self, when: float, what) -> None:
        self.count += 1
        heapq.heappush(self.events, (when, self.count, what))

    def run(self) -> int:
        for day in range(7):
            night = (day + 1) * self.DAY + self.random.uniform(0, 240)
            self.later(night, self.clean_up)
            for _ in range(self.random.choice([3, 20, 60])):  # by day
                self.later(day * self.DAY + self.random.uniform(0, self.DAY), self.request)
            for _ in range(self.random.choice([1, 2, 8])):  # and at once, around midnight
                around = (day + 1) * self.DAY + self.random.uniform(-400, 600)
                for _ in range(3):
                    self.later(around, self.request)
        while self.events:
            now, _, what = heapq.heappop(self.events)
            what(now)
        return self.overlaps

    def clean_up(self, now: float) -> None:
        self.present = self.present and self.containers > 0

    def request(self, now: float) -> None:
        self.waiting.append(now)
        self.line_up(now)

    def line_up(self, now: float) -> None:
        while self.waiting and (self.is_warm(now) or not self.pulling):
            self.waiting.pop()
            leads = not self.is_warm(now)
            self.pulling = self.pulling or leads
            # Docker looks for the image some time after the start.
            self.later(
                now + self.random.uniform(0, self.CHECKED_AFTER),
                lambda when, leads=leads: self.pull(when, leads=leads),
            )

    def is_warm(self, now: float) -> bool:
        return self.known and (now < self.trusted_until or self.containers > 0)

    def pull(self, now: float, *, leads: bool) -> None:
        is_cold = not self.present
        if is_cold:
            self.overlaps += self.cold_pulls > 0
            self.cold_pulls += 1
        ends = now + (self.COLD if is_cold else self.WARM)
        self.later(ends, lambda when: self.started(when, leads=leads, was_cold=is_cold))

    def started(self, now: float, *, leads: bool, was_cold: bool) -> None:
        self.cold_pulls -= was_cold
        self.pulling = self.pulling and not leads
        self.present = self.known = True
        self.containers += 1
        self.trusted_until = self.trusts(now)
        self.later(now + self.random.choice([60, 600, 3_000]), self.ended)
        self.line_up(now)

    def ended(self, now: float) -> None:
        self.containers -= 1


def _by_clean_up(now: float) -> float:
    until = trusted_until(MIDNIGHT + timedelta(seconds=now), times=TIMES, margin=MARGIN)
    return (until - MIDNIGHT).total_seconds()


def test_no_cold_pulls_overlap_in_fifty_weeks_with_nightly_clean_up():
    assert [Week(seed, trusts=_by_clean_up).run() for seed in range(50)] == [0] * 50


def test_a_clock_alone_lets_cold_pulls_overlap():
    """The model can fail: with the rule of twelve hours, it does."""
    assert sum(Week(seed, trusts=lambda now: now + 12 * 3_600).run() for seed in range(50)) > 0
