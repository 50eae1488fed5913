"""What is broken during a run: blows drawn from the seed, each with a time and a duration."""

import random
from typing import Any

from tests.chaos import scale
from tests.chaos.havoc import Blow, Havoc, Kind

LISTS = r"/(applications|deployments)$"
STARTS = r"/start$"
STOPS = r"/stop$"
CREATES = r"/dockerimage$"
ENVIRONMENTS = r"/envs"
ANYWHERE = ""


def _answers(kind: str, path: str, *, method: str | None = None, **fields: Any) -> Kind:
    def deal(havoc: Havoc, blow: Blow) -> None:
        probability = 0.4 + 0.6 * blow.luck
        havoc.fault_for(
            blow.seconds, kind, path=path, method=method, probability=probability, **fields
        )

    return Kind(deal)


def _work(kind: str, *, weight: int = 1, **fields: Any) -> Kind:
    return Kind(lambda havoc, blow: havoc.fault_some_times(blow, kind, **fields), weight)


def _lasting(kind: str, *, times: float = 0.5, weight: int = 1) -> Kind:
    return Kind(lambda havoc, blow: havoc.fault_for(times * blow.seconds, kind), weight)


BLOWS: dict[str, Kind] = {
    "Coolify answers 500": _answers("error", ANYWHERE, status=500),
    "Coolify answers 502 to starts": _answers("error", STARTS, status=502),
    "Coolify answers 503 to stops": _answers("error", STOPS, status=503),
    "Coolify answers 429": _answers("error", ANYWHERE, status=429, retry_after=1),
    "Coolify is slow": _answers("latency", ANYWHERE, seconds=3.0),
    "Coolify is away for long": Kind(
        lambda havoc, blow: havoc.fault_for(6 * blow.seconds, "reset_before"), 1
    ),
    "single calls hang": Kind(
        lambda havoc, blow: havoc.fault_some_times(blow, "latency", path=ANYWHERE, seconds=15.0)
    ),
    "the budget is exhausted": Kind(
        lambda havoc, blow: havoc.fault_for(
            2 * blow.seconds, "error", path=ANYWHERE, status=429, retry_after=3
        ),
        1,
    ),
    "Coolify is unreachable": Kind(
        lambda havoc, blow: havoc.fault_for(2 * blow.seconds, "reset_before")
    ),
    "answers to starts are lost": _answers("reset_after", STARTS),
    "answers to stops are lost": _answers("reset_after", STOPS),
    "answers to new applications are lost": _answers("reset_after", CREATES),
    "answers to environments are lost": _answers("reset_after", ENVIRONMENTS),
    "lists are web pages": _answers("html", LISTS, method="GET"),
    "lists are short": _answers("short", LISTS, method="GET", keep=2),
    "lists are empty": _answers("empty", LISTS, method="GET"),
    "a deployment hangs in the queue": _work("stuck_queued"),
    "a deployment hangs": _work("stuck_in_progress"),
    "a deployment fails": _work("deployment_fails", weight=2),
    "a pull fails": _work("pull_fails", weight=2),
    "a stop is ignored": _work("stop_ignored", weight=2),
    "a container survives its application": _work("container_survives"),
    "a cancellation answers 500": _work("cancel_answers_500"),
    "statuses freeze": _lasting("statuses_freeze", times=3, weight=2),
    "images are cleaned up": Kind(Havoc.clean_up_images),
    "running containers are overlooked": _work("container_overlooked", weight=3),
    "the API is disabled": _lasting("api_disabled"),
    "the address is refused": _lasting("address_refused"),
    "the token is another team's": Kind(
        lambda havoc, blow: havoc.fault_for(2 * blow.seconds, "wrong_team")
    ),
    "Coolify restarts": Kind(Havoc.restart_coolify, 1),
    "a server is lost": Kind(Havoc.lose_server, 1),
    "a server dies and returns": Kind(Havoc.kill_server, 1),
    "a container crashes": Kind(Havoc.crash_container),
    "an application is deleted": Kind(Havoc.delete_application, 1),
    "a worker is killed": Kind(lambda h, b: h.kill(b, "worker"), 4),
    "a worker's leader is killed": Kind(lambda h, b: h.kill_leader(b, "worker")),
    "a worker's child is killed": Kind(lambda h, b: h.kill_child(b, "worker"), 3),
    "a worker is frozen": Kind(
        lambda h, b: h.freeze(b, "worker", seconds=scale.LONGER_THAN_EVERY_LEASE), 3
    ),
    "a node is paused": Kind(Havoc.pause_node, 4),
    "a witness is frozen": Kind(lambda h, b: h.freeze(b, "witness")),
    "a ticker is killed": Kind(lambda h, b: h.kill(b, "ticker")),
    "a ticker is frozen": Kind(lambda h, b: h.freeze(b, "ticker", seconds=5.0)),
    "a web server is killed": Kind(lambda h, b: h.kill(b, "web")),
    "a web server's child is killed": Kind(lambda h, b: h.kill_child(b, "web")),
    "a web server is frozen": Kind(lambda h, b: h.freeze(b, "web"), 1),
    "the web is unreachable": Kind(lambda h, b: h.freeze(b, "gate to web"), 1),
    "workers cannot reach the public address": Kind(Havoc.refuse_workers),
    "connections to the web break": Kind(lambda h, b: h.kill(b, "gate to web"), 1),
    "PostgreSQL is unreachable for a node": Kind(lambda h, b: h.freeze(b, "gate to postgres")),
    "PostgreSQL is slow for a node": Kind(Havoc.slow_postgres),
    "a node's connections to PostgreSQL break": Kind(lambda h, b: h.kill(b, "gate to postgres")),
    "all connections to PostgreSQL are ended": Kind(Havoc.end_connections, 3),
    "PostgreSQL is killed": Kind(Havoc.restart_postgres),
    "PostgreSQL fails over": Kind(Havoc.fail_over),
    "PostgreSQL is read-only": Kind(Havoc.refuse_writes),
    "PostgreSQL's disk is full": Kind(Havoc.fill_disk),
    "a receiver of webhooks hangs": Kind(Havoc.hang_receiver),
}


def draw_blows(dice: random.Random, *, seconds: float, every: float) -> list[Blow]:
    kinds = list(BLOWS)
    weights = [BLOWS[kind].weight for kind in kinds]
    blows = []
    at = every
    while at < seconds:
        kind = dice.choices(kinds, weights)[0]
        blows.append(Blow(at, kind, seconds=dice.uniform(1.0, 4.0), luck=dice.random()))
        at += dice.expovariate(1 / every)
    return blows
