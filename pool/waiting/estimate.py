"""How long a waiter will wait, from what was measured. Pure arithmetic, in seconds.

When a held slot comes free is not known, but its chances are: of the bots that held a slot for at
least as long as this one has, some share was gone ten seconds later, half of them five minutes
later, and so on. Added up over all slots, that gives the number of slots expected free by any time;
the third in line goes when three are. A slot given to a waiter comes free again, which counts for
those behind it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

# Assumed before there is any history. Each counts as much as one measured bot.
TYPICAL_MEETINGS = tuple(60.0 * minutes for minutes in (5, 10, 20, 30, 30, 40, 55, 60))
TYPICAL_START = 30.0
TYPICAL_STOP = 10.0

# How much longer a bot may stay that outlasts all measured ones, as shares of its time so far.
_OUTLASTING = (0.05, 0.15, 0.25, 0.4, 0.6, 1.0, 2.0)
# For random events, the median time of the nth is when n - 1/3 events are expected.
_MEDIAN = 1 / 3
_POINTS = 80
_GENERATIONS = 3

Chances = list[tuple[float, float]]  # (when, how many slots to expect then)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is known about a platform's bots: how long they ran (`ran` is a sample of `bots` bots,
    from the shortest to the longest), and how long a start and a stop take."""

    ran: Sequence[float] = ()
    bots: int = 0
    start: float = TYPICAL_START
    stop: float = TYPICAL_STOP

    def holds(self) -> Chances:
        """How long a slot is held, from its assignment until it is idle again."""
        typical = len(TYPICAL_MEETINGS)
        history = self.bots / (self.bots + typical)
        ran = [(seconds, history / len(self.ran)) for seconds in self.ran]
        assumed = [(seconds, (1 - history) / typical) for seconds in TYPICAL_MEETINGS]
        return sorted((self.start + s + self.stop, weight) for s, weight in ran + assumed)


@dataclass(frozen=True, kw_only=True)
class PoolState:
    """The slots that serve: how long each has been held or stopping, and how many are free."""

    held_for: Sequence[float] = ()
    stopping_for: Sequence[float] = ()
    free: int = 0


@dataclass
class Outlook:
    """When the next slots are expected to come free."""

    measured: Measured
    pool: PoolState
    _times: list[float] = field(init=False)
    _slots: list[float] = field(init=False)
    _pace: float = field(init=False)

    def __post_init__(self) -> None:
        holds, first = self.measured.holds(), self._first_releases()
        self._times, self._slots = _expected_slots(holds, first)
        self._pace = _total(first) / sum(hold * weight for hold, weight in holds)

    def waits(self, patience: Iterable[float]) -> Iterator[float]:
        """The wait for a slot of each waiter in order, given how long each will stay in line. A
        waiter that gives up before its turn takes no slot from those behind it."""
        served = 0
        for stays in patience:
            wait = self.wait_of(served + 1)
            served += wait <= stays
            yield wait

    def wait_behind(self, patience: Sequence[float], *, others: int) -> float:
        """The wait of a waiter behind these, and behind `others` who will stay."""
        waits = self.waits(patience)
        served = sum(wait <= stays for wait, stays in zip(waits, patience, strict=True))
        return self.wait_of(served + others + 1)

    def wait_of(self, nth: int) -> float:
        """When the nth slot from now is expected; infinite if no slot is in service."""
        if nth <= self.pool.free:
            return 0.0
        if not self._slots:
            return inf
        wanted = nth - self.pool.free - _MEDIAN
        index = bisect_right(self._slots, wanted)
        if index < len(self._times):
            return self._times[index]
        return self._times[-1] + (wanted - self._slots[-1]) / self._pace

    def _first_releases(self) -> Chances:
        holds = self.measured.holds()
        stop = self.measured.stop
        stopping = [(max(stop - age, 0.0), 1.0) for age in self.pool.stopping_for]
        taken_now = [(hold, weight * self.pool.free) for hold, weight in holds if self.pool.free]
        held = [chance for age in self.pool.held_for for chance in _releases(holds, age=age)]
        return sorted(stopping + taken_now + held)


def time_left(measured: Measured, *, age: float, share: float) -> float:
    """After how many seconds a slot that has been held for so long is free, with this chance."""
    chances = _releases(measured.holds(), age=age)
    reached = accumulate(weight for _, weight in chances)
    likely = (wait for (wait, _), total in zip(chances, reached, strict=True) if total >= share)
    return next(likely, chances[-1][0])


def _releases(holds: Chances, *, age: float) -> Chances:
    """When a slot that has been held for so long will be free."""
    later = [(hold - age, weight) for hold, weight in holds if hold > age]
    if not later:
        return [(age * share, 1 / len(_OUTLASTING)) for share in _OUTLASTING]
    total = _total(later)
    return [(wait, weight / total) for wait, weight in later]


def _expected_slots(holds: Chances, first: Chances) -> tuple[list[float], list[float]]:
    """Times, and how many slots will have come free by each of them. They end where bots of
    generations that are not counted would matter."""
    if not first:
        return [], []
    generation = _condensed(first)
    chances = list(generation)
    for _ in range(_GENERATIONS):
        generation = _condensed(_held_again(generation, holds))
        chances += generation
    horizon = generation[len(generation) // 10][0]
    seen = sorted(chance for chance in chances if chance[0] <= horizon)
    return [when for when, _ in seen], list(accumulate(weight for _, weight in seen))


def _total(chances: Chances) -> float:
    return sum(weight for _, weight in chances)


def _held_again(generation: Chances, holds: Chances) -> Chances:
    few = _condensed(holds, points=8)
    total = _total(few)
    return sorted(
        (when + hold, weight * share / total) for when, weight in generation for hold, share in few
    )


def _condensed(chances: Chances, *, points: int = _POINTS) -> Chances:
    """The same in fewer points, each the mean of its share."""
    if len(chances) <= points:
        return list(chances)
    share = _total(chances) / points
    condensed: Chances = []
    moment = mass = 0.0
    for when, weight in chances:
        moment, mass = moment + when * weight, mass + weight
        if mass >= share:
            condensed.append((moment / mass, mass))
            moment = mass = 0.0
    return [*condensed, (moment / mass, mass)] if mass > share / 1e6 else condensed
