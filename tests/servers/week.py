"""A week of starts, meetings and nightly clean-ups on one server."""

import heapq
import random
from datetime import UTC, datetime

MIDNIGHT = datetime(2026, 11, 17, tzinfo=UTC)


class Week:
    """One image on one server. Times in seconds."""

    COLD, WARM, CHECKED_AFTER, DAY = 420.0, 25.0, 15.0, 86_400.0
    BY_DAY, AT_NIGHT, TOGETHER = (3, 20, 60), (1, 2, 8), 3

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
            for _ in range(self.random.choice(self.BY_DAY)):  # by day
                self.later(day * self.DAY + self.random.uniform(0, self.DAY), self.request)
            for _ in range(self.random.choice(self.AT_NIGHT)):  # and at once, around midnight
                around = (day + 1) * self.DAY + self.random.uniform(-400, 600)
                for _ in range(self.TOGETHER):
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
