"""Two nodes of web, worker and ticker around one PostgreSQL."""

import time

import pytest

from tests.ops.nodes import Cluster, Node, cluster
from tests.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(290)]

BOTS = 40
# By the table in docs/scaling.md: 1 × 4 of the web, 2 × 2 + 4 of the worker, 1 of the ticker.
CONNECTIONS_OF_A_NODE = 13


def leading(nodes: list[Node], pool: Cluster) -> Node:
    """The node whose ticker leads: the one whose loss hurts most."""
    holder = str(pool.ask("SELECT holder FROM botpool_tickerlease"))
    pid = int(holder.split(":")[1])
    return next(node for node in nodes if pid in [child.pid for child in node.started])


def test_one_is_killed_under_load_and_the_other_finishes_all_of_it():
    with cluster(MAX_POOL_SIZE="8") as pool, pool.node() as one, pool.node() as two:
        pool.wait_until_ready()
        key = pool.manage("manage", "create_api_key", "test").split()[-1]
        pool.send_bots(BOTS, key=key, meeting_seconds=60)
        wait_until(lambda: pool.ended() >= 8, what="the first bots have ended")
        doomed = leading([one, two], pool)
        doomed.kill()
        killed = time.monotonic()
        told = f"all have ended {doomed.output[-2000:]}"
        wait_until(lambda: pool.ended() == BOTS, what=told, timeout=150)
        print(f"\nall of {BOTS} bots ended {time.monotonic() - killed:.1f} s after the kill")
        assert pool.ask("SELECT count(*) FROM bots_bot WHERE status <> 'DONE'") == 0
        assert pool.connections() <= CONNECTIONS_OF_A_NODE
        assert two.healthy("worker")
        assert two.healthy("ticker")
