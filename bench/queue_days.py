"""Simulated days of a pool and its queue, with several load shapes, to test estimates on."""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

HOURS = 3600.0
START, STOP = 30.0, 10.0
PATIENCE = 600.0
REMEMBERED = 500


@dataclass(frozen=True, kw_only=True)
class Day:
    name: str
    slots: int
    arrivals: Callable[[random.Random], Iterator[float]]
    runs: Callable[[random.Random], float]


@dataclass(kw_only=True)
class Seen:
    """What was known when a bot joined the queue."""

    position: int
    held_for: list[float]
    stays: list[float]
    history: list[float]


@dataclass
class Waiter:
    seen: Seen
    joined: float
    wait: float | None = None


@dataclass
class Simulation:
    """A queue served in order of arrival; bots give up after PATIENCE seconds."""

    day: Day
    random: random.Random
    held: dict[int, float] = field(default_factory=dict)  # slot number: held since
    frees: list[tuple[float, int, float]] = field(default_factory=list)
    line: deque[Waiter] = field(default_factory=deque)
    history: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    waiters: list[Waiter] = field(default_factory=list)

    def run(self) -> list[Waiter]:
        for now in self.day.arrivals(self.random):
            self._free_until(now)
            self._arrive(now)
        self._free_until(float("inf"))
        return [waiter for waiter in self.waiters if waiter.wait is not None]

    def _arrive(self, now: float) -> None:
        self._drop_impatient(now)
        if len(self.held) < self.day.slots and not self.line:
            free = next(n for n in range(self.day.slots) if n not in self.held)
            self._hold(free, now)
            return
        waiter = Waiter(self._seen(now), now)
        self.line.append(waiter)
        self.waiters.append(waiter)

    def _seen(self, now: float) -> Seen:
        return Seen(
            position=len(self.line) + 1,
            held_for=[now - since for since in self.held.values()],
            stays=[w.joined + PATIENCE - now for w in self.line],
            history=list(self.history),
        )

    def _free_until(self, now: float) -> None:
        while self.frees and self.frees[0][0] <= now:
            when, slot, ran = heapq.heappop(self.frees)
            del self.held[slot]
            self.history.append(ran)
            self._drop_impatient(when)
            if self.line:
                waiter = self.line.popleft()
                waiter.wait = when - waiter.joined
                self._hold(slot, when)

    def _hold(self, slot: int, now: float) -> None:
        ran = self.day.runs(self.random)
        self.held[slot] = now
        heapq.heappush(self.frees, (now + START + ran + STOP, slot, ran))

    def _drop_impatient(self, now: float) -> None:
        while self.line and self.line[0].joined + PATIENCE < now:
            self.line.popleft()


# --- Load shapes -------------------------------------------------------------------------------


def _steady(per_hour: float) -> Callable[[random.Random], Iterator[float]]:
    def arrivals(rng: random.Random) -> Iterator[float]:
        now = 0.0
        while (now := now + rng.expovariate(per_hour / HOURS)) < 10 * HOURS:
            yield now

    return arrivals


def _on_the_hour(each: int, *, besides: float) -> Callable[[random.Random], Iterator[float]]:
    def arrivals(rng: random.Random) -> Iterator[float]:
        bursts = [h * HOURS / 2 + rng.gauss(0, 60) for h in range(1, 20) for _ in range(each)]
        yield from sorted([*(b for b in bursts if b > 0), *_steady(besides)(rng)])

    return arrivals


def _meetings(rng: random.Random) -> float:
    """Half an hour or an hour, give or take a few minutes; one in eight never takes place."""
    if rng.random() < 0.12:
        return rng.uniform(60, 600)
    return max(60.0, rng.choice((1800, 1800, 3600)) * rng.gauss(0.97, 0.12))


def _calls(rng: random.Random) -> float:
    return 20 + rng.lognormvariate(5.2, 0.9)  # about three minutes, some much longer


DAYS = (
    Day(name="steady, meetings", slots=100, arrivals=_steady(160), runs=_meetings),
    Day(
        name="on the hour, meetings",
        slots=100,
        arrivals=_on_the_hour(80, besides=20),
        runs=_meetings,
    ),
    Day(name="short calls", slots=20, arrivals=_steady(230), runs=_calls),
    Day(name="small pool, meetings", slots=8, arrivals=_steady(14), runs=_meetings),
)
