"""Two hosts in separate networks share one PostgreSQL, and one loses its network."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.record import bots_in_two_containers, bots_in_two_meetings
from tests.ops.hosts import Host, gate, host
from tests.ops.nodes import Cluster, Node, cluster
from tests.processes import free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]

BOTS = 16
WEB = 8000


@contextmanager
def two_hosts() -> Iterator[tuple[Cluster, list[tuple[Host, Node]]]]:
    with (
        host(1) as left,
        host(2) as right,
        cluster(MAX_POOL_SIZE="6", coolify_host="0.0.0.0") as pool,
    ):
        postgres_port = free_port()
        socket = f"{pool.socket_dir}/.s.PGSQL.{pool.port_of_postgres}"
        webs = [f"{each.address}:{WEB}" for each in (left, right)]
        with (
            gate(postgres_port, socket),
            gate(pool.port, *webs, patience=2.0),
            node_on(left, pool, postgres_port) as one,
            node_on(right, pool, postgres_port) as two,
        ):
            pool.wait_until_ready()
            yield pool, [(left, one), (right, two)]


def node_on(place: Host, pool: Cluster, postgres_port: int):
    coolify = pool.simulator.api_url.replace("0.0.0.0", place.neighbour)
    return pool.node(
        prefix=place.prefix,
        DATABASE_URL=f"postgres://botpool@{place.neighbour}:{postgres_port}/botpool",
        COOLIFY_API_URL=coolify,
        WEB_BIND=f"{place.address}:{WEB}",
    )


def leading(hosts: list[tuple[Host, Node]], pool: Cluster) -> tuple[Host, Node]:
    holder = str(pool.ask("SELECT holder FROM slots_lease WHERE key = 'ticker'"))
    pid = int(holder.split(":")[1])
    return next(
        (place, node) for place, node in hosts if pid in [started.pid for started in node.started]
    )


def send_and_finish(pool: Cluster, key: str, *, before: int) -> None:
    pool.send_bots(BOTS, key=key, meeting_seconds=60)
    wait_until(lambda: pool.ended() == before + BOTS, what="all have ended", timeout=120)


def test_the_other_host_takes_over_when_a_cable_is_pulled():
    with two_hosts() as (pool, hosts):
        key = pool.manage("manage", "create_api_key", "test").split()[-1]
        pool.send_bots(BOTS, key=key, meeting_seconds=60)
        wait_until(lambda: pool.ended() >= 2, what="the first bots have ended")
        cut_off, node = leading(hosts, pool)
        cut_off.pull_the_cable()
        wait_until(lambda: pool.ended() == BOTS, what="all have ended", timeout=120)
        wait_until(lambda: leading(hosts, pool)[0] != cut_off, what="the other host leads")

        cut_off.plug_it_in()
        send_and_finish(pool, key, before=BOTS)
        wait_until(lambda: node.healthy("worker"), what="its worker is healthy again")
        assert node.healthy("ticker")

        assert pool.ask("SELECT count(*) FROM bots_bot WHERE status <> 'DONE'") == 0
        record = SimulatorControl(pool.simulator.url).record()
        assert bots_in_two_containers(record["containers"]) == []
        assert bots_in_two_meetings(record["containers"]) == []
