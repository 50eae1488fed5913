"""Botpool with Redis as the broker, and behind PgBouncer in transaction mode."""

import re

import pytest

from tests.ops.neighbours import pgbouncer, program, redis, servers_of
from tests.ops.nodes import Cluster, Node, cluster
from tests.processes import wait_until

pytestmark = pytest.mark.slow

BOTS = 6


def serve_bots(pool: Cluster, node: Node) -> None:
    pool.wait_until_ready()
    key = pool.manage("manage", "create_api_key", "test").split()[-1]
    pool.send_bots(BOTS, key=key, meeting_seconds=30)
    wait_until(
        lambda: pool.ended() == BOTS, what=f"all bots ended: {node.output[-2000:]}", timeout=120
    )
    assert pool.ask("SELECT count(*) FROM bots_bot WHERE status <> 'DONE'") == 0


def test_it_works_with_redis_as_the_broker():
    program("redis-server")
    with redis() as url, cluster(REDIS_URL=url) as pool, pool.node() as node:
        serve_bots(pool, node)
        assert pool.ask("SELECT count(*) FROM django_q_ormq") == 0


def test_it_works_behind_pgbouncer_with_few_connections():
    program("pgbouncer")
    with cluster() as pool:
        place = {"host": pool.socket_dir, "port": pool.port_of_postgres}
        with pgbouncer(**place, size=6) as url, pool.node(DATABASE_URL=url) as node:
            serve_bots(pool, node)
            assert servers_of(url) <= 6
            assert not re.search(r"prepared statement|cursor .* does not exist", node.output)
