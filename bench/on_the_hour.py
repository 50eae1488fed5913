"""Many meetings begin and end together, with all processes running.

First with a slow Coolify: half a second for each call, which only calls in flight at the same time
make up for. Then under the default budget, where the calls themselves are scarce.
"""

import time
from statistics import median, quantiles

from django.conf import settings
from django.db import connection

from api.keys import create_api_key
from bench.processes import Botpool, SimulatedCoolify, botpool, empty, free_port, slots, until
from bench.table import Row
from slots.description import wanted_description
from slots.models import Slot

NO_LIMIT = {"COOLIFY_RATE_LIMIT": "100000", "MAX_CONCURRENT_DEPLOYMENTS": "400"}

FEW, SECONDS_A_CALL = 30, 0.5
MANY, RATE_LIMIT = 300, 200
SAMPLE_EVERY, LONGEST = 30, 360


def run() -> list[Row]:
    return [*_with_a_slow_coolify(), *_under_the_default_budget()]


# --- A slow Coolify ---------------------------------------------------------------------------


def _with_a_slow_coolify() -> list[Row]:
    empty()
    key = create_api_key(name="on_the_hour, slow")
    with (
        _coolify() as coolify,
        botpool(coolify, key=key, port=free_port(), MAX_POOL_SIZE=str(FEW), **NO_LIMIT) as pool,
    ):
        _make_busy(pool, FEW)
        pool.say_all_done()
        until(lambda: slots("idle") == FEW)
        until(_texts_are_written)
        coolify.control.slow_down(SECONDS_A_CALL)
        begin = time.time()
        pool.request_bots(FEW)
        started = coolify.wait_for("start", since=begin, count=FEW) - begin
        until(lambda: slots("busy") == FEW)
        until(_texts_are_written)
        begin = time.time()
        pool.say_all_done()
        stopped = coolify.wait_for("stop", since=begin, count=FEW) - begin
    return [
        _beside_ideal("requested at once: last start", started, calls=2),
        _beside_ideal("end together: last stop", stopped, calls=1),
    ]


def _beside_ideal(what: str, seconds: float, *, calls: int) -> Row:
    in_flight = settings.COOLIFY_CONCURRENCY
    ideal = FEW * calls * SECONDS_A_CALL / in_flight
    return Row(
        figure=f"{FEW} bots {what}, {SECONDS_A_CALL} s a call",
        value=f"{seconds:.1f} s",
        reference=f"ideal with {in_flight} calls in flight {ideal:.1f} s",
        ratio=seconds / ideal,
        aim="≤ 1.5",
        met=seconds / ideal <= 1.5,
    )


# --- The default budget -----------------------------------------------------------------------


def _under_the_default_budget() -> list[Row]:
    empty()
    key, port = create_api_key(name="on_the_hour, budget"), free_port()
    size = {"MAX_POOL_SIZE": str(MANY)}
    with _coolify() as coolify:
        with botpool(coolify, key=key, port=port, **NO_LIMIT, **size) as pool:
            _make_busy(pool, MANY)
            until(_texts_are_written)
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE coolify_budget")  # the calls made so far are not the point
        coolify.control.change(rate_limit=RATE_LIMIT)
        with botpool(coolify, key=key, port=port, **size) as pool:
            time.sleep(10)  # the first passes of the periodic work
            begin = time.time()
            pool.say_all_done()
            idle = _idle_over_time(begin)
            stops = len(coolify.times("stop", since=begin))
            requests = pool.request_at_once(MANY)
    return [
        Row(
            figure=f"{MANY} bots end together, default budget: stop calls a bot",
            value=f"{stops / MANY:.2f}",
            reference="1",
            ratio=stops / MANY,
            aim="≤ 1.2",
            met=stops / MANY <= 1.2,
        ),
        Row(
            figure=f"{MANY} bots end together, default budget: slots idle",
            value=", ".join(f"{count} at {second} s" for second, count in idle.items()),
            reference=f"all {MANY}",
            ratio=idle[SAMPLE_EVERY] / MANY,
            aim="some at once, more each minute",
            met=idle[SAMPLE_EVERY] > 0 and _grows_each_minute([0, *idle.values()]),
        ),
        _answered(requests),
    ]


def _answered(seconds: list[float]) -> Row:
    p99 = quantiles(seconds, n=100)[98]
    return Row(
        figure=f"{MANY} requests at once on one node, {MANY} idle slots: p99",
        value=f"{p99 * 1000:.0f} ms, median {median(seconds) * 1000:.0f} ms",
        reference="1 s",
        ratio=p99,
        aim="below the reference",
        met=p99 < 1.0,
    )


def _idle_over_time(begin: float) -> dict[int, int]:
    """The number of idle slots each half minute, until all are idle."""
    idle: dict[int, int] = {}
    for second in range(SAMPLE_EVERY, LONGEST + 1, SAMPLE_EVERY):
        time.sleep(max(0.0, begin + second - time.time()))
        idle[second] = slots("idle")
        if idle[second] == MANY:
            break
    return idle


def _grows_each_minute(counts: list[int]) -> bool:
    """The budget is one of calls in a minute: within one, all of them may be spent."""
    minutes = zip(counts, counts[2:], strict=False)
    return counts[-1] == MANY and all(before < after for before, after in minutes)


# --- Parts of both ----------------------------------------------------------------------------


def _coolify() -> SimulatedCoolify:
    """One in which build places and job workers are no limit."""
    return SimulatedCoolify(concurrent_builds=400, job_workers=400, deployment_queue_limit=400)


def _make_busy(pool: Botpool, count: int) -> None:
    pool.request_bots(count)
    until(lambda: slots("busy") == count)


def _texts_are_written() -> bool:
    applications = Slot.objects.exclude(coolify_uuid="")
    return all(slot.description_written == wanted_description(slot) for slot in applications)
