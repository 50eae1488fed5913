"""Workers are killed at random moments: every bot ends once, and never runs twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.conf import settings as current
from django.db import connection

from bots.models import Bot
from bots.status import TERMINAL, BotStatus
from coolify.simulator.record import bots_in_two_containers, bots_in_two_meetings
from queues.models import QueueEntry
from slots.deployment import ACTIVE, Deployment
from tests.invariants import broken_rules
from tests.pool_under_test import SHORT
from tests.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

BOTS = 20
SLOTS = 8
WORKERS = 2
KILLS = 30
PATIENCE = 120.0
# More seeds are tried with BOTPOOL_SEEDS=1,2,3,…
SEEDS = [int(seed) for seed in os.environ.get("BOTPOOL_SEEDS", "1").split(",")]

DURATIONS = {
    **{name: value for name, value in SHORT.items() if isinstance(value, timedelta)},
    # How long the leases of a killed worker last.
    "LOCK_TTL": timedelta(seconds=1),
    "RECONCILE_LOCK_TTL": timedelta(milliseconds=500),
    "DEPLOY_TIMEOUT": timedelta(seconds=20),
    "DEPLOY_GRACE_PERIOD": timedelta(seconds=20),
    "CONTAINER_EVIDENCE": timedelta(seconds=5),
    "HEARTBEAT_TIMEOUT": timedelta(seconds=30),
    "HEARING_GAP": timedelta(seconds=10),
    "RECONCILE_INTERVAL": timedelta(seconds=3),
    "RECOVERY_PAUSE": timedelta(milliseconds=200),
}
PASSED_ON = [
    "COOLIFY_API_URL",
    "COOLIFY_API_TOKEN",
    "COOLIFY_PROJECT_UUID",
    "COOLIFY_SERVER_UUIDS",
    "COOLIFY_RATE_LIMIT",
    "MAX_POOL_SIZES",
    "PUBLIC_URL",
]


class Nursery:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.alive: list[int] = []

    def start_worker(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.alive.append(int(self.process.stdout.readline()))

    def kill_one(self, dice: random.Random) -> None:
        victim = self.alive.pop(dice.randrange(len(self.alive)))
        os.kill(victim, signal.SIGKILL)


@contextmanager
def nursery() -> Iterator[Nursery]:
    changes = {
        **{name: getattr(current, name) for name in PASSED_ON},
        "database": connection.settings_dict["NAME"],
        "durations": {name: d / timedelta(milliseconds=1) for name, d in DURATIONS.items()},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pool.controller.worker_nursery", json.dumps(changes)],
        cwd=ROOT,
        env={**os.environ, "LOG_LEVEL": "ERROR"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    workers = Nursery(process)
    try:
        yield workers
    finally:
        for pid in workers.alive:
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)


def kill_now_and_then(workers, *, dice):
    """Mostly one of them, sometimes all at once, so that for a moment no worker runs."""
    for _ in range(KILLS):
        time.sleep(dice.uniform(0.02, 0.4))
        for _ in range(WORKERS if dice.random() < 0.2 else 1):
            workers.kill_one(dice)
        time.sleep(dice.choice([0.0, 0.0, 0.3]))
        while len(workers.alive) < WORKERS:
            workers.start_worker()


def is_over(pool, bots):
    return (
        pool.count(bots, *TERMINAL) == len(bots)
        and pool.all_idle()
        and not Deployment.objects.filter(status__in=ACTIVE).exists()
    )


def wait_until_over(pool, bots):
    deadline = time.monotonic() + PATIENCE
    while not is_over(pool, bots):
        assert time.monotonic() < deadline, f"it is not over: {pool.picture()}"
        time.sleep(0.05)


@pytest.mark.parametrize("pool", [{"shortest_heartbeat": 0.5}], indirect=True)
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_workers_lose_and_double_no_bot(pool, settings, seed):
    settings.MAX_POOL_SIZES = dict.fromkeys(settings.MAX_POOL_SIZES, SLOTS)
    dice = random.Random(seed)
    bots = [pool.request(meetingSeconds=dice.randrange(200, 1500)) for _ in range(BOTS)]
    with nursery() as workers:
        for _ in range(WORKERS):
            workers.start_worker()
        kill_now_and_then(workers, dice=dice)
        wait_until_over(pool, bots)

    failed = Bot.objects.exclude(status=BotStatus.DONE)
    assert [(bot.status, bot.failure_reason) for bot in failed] == []
    assert not QueueEntry.objects.exists()
    assert broken_rules() == []
    record = pool.control.containers()
    assert bots_in_two_containers(record) == []
    assert bots_in_two_meetings(record) == []
    assert pool.control.state()["containers"] == []
