"""How good the estimate of a waiter's time is, beside the naive "position × 30 s".

On simulated days (bench/queue_days.py): each bot that had to wait and got a slot is asked what it
would have been told when it joined the line. Run it by `python -m bench queue_estimate`.
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
ASKED = 500


def run() -> list[Row]:
    told = {day.name: _waits(day) for day in DAYS}
    return [
        *(_compare(name, waits) for name, waits in told.items()),
        _compare("all days", list(chain.from_iterable(told.values()))),
    ]


def _waits(day: Day) -> list[tuple[Seen, float]]:
    """What some of the day's waiters saw, and how long they waited in the end."""
    waits = [
        (waiter.seen, waiter.wait)
        for seed in SEEDS
        for waiter in Simulation(day, random.Random(seed)).run()
        if waiter.wait is not None
    ]
    return random.Random(0).sample(waits, min(ASKED, len(waits)))


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
