"""How soon a bot starts elsewhere after its deployment failed, on the default timings.

From the end of the failed deployment in the simulated Coolify to its answer to the next start of
the same bot, in another slot. Once Coolify notifies Botpool, once Botpool has to notice by itself.
The rate limit is the default one, and the budget is quiet.
"""

import random
import time
from statistics import median
from typing import Any

from api.keys import create_api_key
from bench.processes import Botpool, SimulatedCoolify, botpool, empty, free_port, slots, until
from bench.table import Row
from coolify.budget.report import budget_report

ROUNDS = 5
SLOTS = 30
LONGEST_BUILD = 12.0
MOST = 10.0
QUIET = 20  # calls in the last minute
SECRET = "the-webhook-secret-of-this-benchmark"


def run() -> list[Row]:
    key = create_api_key(name="failed start")
    return [
        _row("with Coolify's notification", _measure(key, notified=True)),
        _row("without it", _measure(key, notified=False)),
    ]


def _row(how: str, seconds: list[float]) -> Row:
    return Row(
        figure=f"failed deployment to the bot's next start, {how}, worst of {len(seconds)}",
        value=f"{max(seconds):.1f} s, median {median(seconds):.1f} s",
        reference=f"{MOST:.0f} s",
        ratio=max(seconds) / MOST,
        aim="below the reference",
        met=max(seconds) < MOST,
    )


def _measure(key: str, *, notified: bool) -> list[float]:
    empty()
    port, chance = free_port(), random.Random(0)
    url = f"http://127.0.0.1:{port}/api/v1/coolify/webhook/{SECRET}" if notified else None
    with (
        SimulatedCoolify(webhook_url=url) as coolify,
        botpool(
            coolify,
            key=key,
            port=port,
            MAX_POOL_SIZE=str(SLOTS),
            COOLIFY_WEBHOOK_SECRET=SECRET,
        ) as pool,
    ):
        return [_fail_one(pool, coolify, chance=chance) for _ in range(ROUNDS)]


def _fail_one(pool: Botpool, coolify: SimulatedCoolify, *, chance: random.Random) -> float:
    """The seconds from the end of a deployment that fails to the bot's next start."""
    until(lambda: budget_report().spent < QUIET)
    coolify.control.change(start_seconds=1.0 + chance.random() * (LONGEST_BUILD - 1.0))
    coolify.control.add_fault("deployment_fails", times=1)
    begin = time.time()
    pool.request_bot()
    until(lambda: _failures(coolify, since=begin))
    failed = _failures(coolify, since=begin)[0]
    coolify.control.change(start_seconds=0.4)
    started = coolify.wait_for("start", since=failed["at"])
    until(lambda: slots("busy") == 1)
    pool.say_all_done()
    until(lambda: slots("busy") == 0 and slots("stopping") == 0)
    return started - float(failed["at"])


def _failures(coolify: SimulatedCoolify, *, since: float) -> list[dict[str, Any]]:
    world = coolify.simulator.world
    with world.lock:
        return [
            event
            for event in world.events
            if event["at"] >= since and event["kind"] == "deployment failed"
        ]
