"""Two nodes of web server, worker and ticker around one PostgreSQL."""

import time

import pytest

from tests.ops.nodes import Cluster, Node, cluster
from tests.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(290)]

BOTS = 40
# From the table in docs/scaling.md: web 1 × 4, worker 2 × 2 + 4, ticker 1.
CONNECTIONS_OF_A_NODE = 13


def leading(nodes: list[Node], pool: Cluster) -> Node:
    """The node with the leading ticker, whose loss hurts most."""
    holder = str(pool.ask("SELECT holder FROM slots_lease WHERE key = 'ticker'"))
    pid = int(holder.split(":")[1])
    return next(node for node in nodes if pid in [child.pid for child in node.started])


def test_the_other_node_finishes_all_bots_when_one_is_killed():
    with cluster(MAX_POOL_SIZE="8") as pool, pool.node() as one, pool.node() as two:
        pool.wait_until_ready()
        key = pool.manage("manage", "create_api_key", "test").split()[-1]
        pool.send_bots(BOTS, key=key, meeting_seconds=60)
        wait_until(lambda: pool.ended() >= 8, what="the first bots have ended")
        victim = leading([one, two], pool)
        victim.kill()
        killed = time.monotonic()
        what = f"all bots have ended: {victim.output[-2000:]}"
        wait_until(lambda: pool.ended() == BOTS, what=what, timeout=150)
        print(f"\nall {BOTS} bots ended {time.monotonic() - killed:.1f} s after the kill")
        assert pool.ask("SELECT count(*) FROM bots_bot WHERE status <> 'DONE'") == 0
        assert pool.connections() <= CONNECTIONS_OF_A_NODE
        assert two.healthy("worker")
        assert two.healthy("ticker")
