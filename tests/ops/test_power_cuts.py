"""kill -9 of a ticker, a worker or everything, at random moments while bots start."""

import os
import random
import time
from contextlib import ExitStack, suppress

import psutil
import pytest

from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.record import bots_in_two_containers, bots_in_two_meetings
from tests.ops.nodes import PROCESSES, Cluster, Node, cluster
from tests.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]

BOTS = 20
CUTS = 6
# Set BOTPOOL_SEEDS=1,2,3,… to try more seeds.
SEEDS = [int(seed) for seed in os.environ.get("BOTPOOL_SEEDS", "1").split(",")]


def kill_process(node: Node, name: str) -> None:
    """Kill a process with its children, and start a new one in its place."""
    process = node.started[PROCESSES.index(name)]
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(process.pid)
        for each in [leader, *leader.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait(30)
    node.start(name)
    node.started[PROCESSES.index(name)] = node.started.pop()


def kill_everything(node: Node) -> None:
    node.kill()
    node.started.clear()
    node.start(*PROCESSES)


def cut_the_power(node: Node, dice: random.Random) -> None:
    for _ in range(CUTS):
        time.sleep(dice.uniform(0.2, 4.0))
        victim = dice.choice(["worker", "ticker", "everything"])
        if victim == "everything":
            kill_everything(node)
        else:
            kill_process(node, victim)


def is_over(pool: Cluster) -> bool:
    busy = pool.ask("SELECT count(*) FROM slots_slot WHERE status <> 'idle'")
    return pool.ended() == BOTS and busy == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_every_bot_runs_once_and_ends_once_despite_power_cuts(seed):
    dice = random.Random(seed)
    with ExitStack() as stack:
        pool = stack.enter_context(cluster(MAX_POOL_SIZE="8", LOCK_TTL="2000", speed=60))
        node = stack.enter_context(pool.node())
        pool.wait_until_ready()
        key = pool.manage("manage", "create_api_key", "test").split()[-1]
        pool.send_bots(BOTS, key=key, meeting_seconds=120)
        cut_the_power(node, dice)
        wait_until(lambda: is_over(pool), what="all bots ended and all slots are idle", timeout=150)

        not_done = "SELECT string_agg(failure_reason, '; ') FROM bots_bot WHERE status <> 'DONE'"
        assert pool.ask(not_done) is None
        ends = "SELECT count(*) FROM bots_botevent WHERE to_status IN ('DONE','FAILED','CANCELLED')"
        assert pool.ask(ends) == BOTS
        containers = SimulatorControl(pool.simulator.url).record()["containers"]
        assert bots_in_two_containers(containers) == []
        assert bots_in_two_meetings(containers) == []
