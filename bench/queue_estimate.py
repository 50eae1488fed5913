"""The error of the estimated wait, compared with the naive "position × 30 s".

Uses simulated days (bench/queue_days.py): for each bot that waited and got a slot, compares its
wait with the estimate at the time it joined the queue.
"""

import random
from collections.abc import Callable
from itertools import chain
from math import inf
from statistics import median, quantiles

from bench.queue_days import DAYS, START, STOP, Day, Seen, Simulation
from bench.table import Row
from pool.waiting.estimate import Measured, Outlook, PoolState

SEEDS = (1, 2, 3)
SAMPLE = 500


def run() -> list[Row]:
    by_day = {day.name: _waits(day) for day in DAYS}
    return [
        *(_compare(name, waits) for name, waits in by_day.items()),
        _compare("all days", list(chain.from_iterable(by_day.values()))),
    ]


def _waits(day: Day) -> list[tuple[Seen, float]]:
    """A sample of the day's waits: what was known at the start, and the actual seconds."""
    waits = [
        (waiter.seen, waiter.wait)
        for seed in SEEDS
        for waiter in Simulation(day, random.Random(seed)).run()
        if waiter.wait is not None
    ]
    return random.Random(0).sample(waits, min(SAMPLE, len(waits)))


def _compare(name: str, waits: list[tuple[Seen, float]]) -> Row:
    figure, naive = _median_error(waits, _estimate), _median_error(waits, _naive)
    return Row(
        figure=f"median error of the estimated wait, {name}",
        value=f"{figure:.0f} s (median wait {median(wait for _, wait in waits):.0f} s)",
        reference=f"position × 30 s: {naive:.0f} s",
        ratio=figure / naive,
        aim="< 1",
        met=figure < naive,
    )


def _median_error(waits: list[tuple[Seen, float]], estimate: Callable[[Seen], float]) -> float:
    return median(abs(estimate(seen) - wait) for seen, wait in waits)


def _estimate(seen: Seen) -> float:
    history = seen.history
    spread = quantiles(history, n=25) if len(history) > 1 else history
    measured = Measured(ran=spread, bots=len(history), start=START, stop=STOP)
    outlook = Outlook(measured, PoolState(held_for=seen.held_for))
    *_, wait = outlook.waits([*seen.stays, inf])
    return wait


def _naive(seen: Seen) -> float:
    return seen.position * 30.0
