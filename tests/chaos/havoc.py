"""What is broken during a run: blows drawn from the seed, each with a time and a duration."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from signal import SIGHUP, SIGKILL, SIGUSR1, SIGUSR2
from typing import Any

from tests.chaos import scale
from tests.chaos.fleet import Fleet
from tests.chaos.members import Member, send

LISTS = r"/(applications|deployments)$"
STARTS = r"/start$"
STOPS = r"/stop$"
CREATES = r"/dockerimage$"
ENVIRONMENTS = r"/envs"
ANYWHERE = ""


@dataclass(frozen=True)
class Blow:
    at: float
    kind: str
    seconds: float
    luck: float  # from 0 to 1: selects the victim and the severity


@dataclass
class Havoc:
    fleet: Fleet
    done: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)  # applications deleted by a blow
    crashed: set[str] = field(default_factory=set)  # applications whose container a blow crashed
    begin: float = 0.0

    def strike(self, blows: list[Blow]) -> None:
        """Deal each blow at its time. Blows may overlap."""
        self.begin = time.monotonic()
        self.fleet.control.add_fault("latency", seconds=scale.LATENCY)
        self.fleet.control.add_fault("latency", seconds=2 * scale.LATENCY, probability=0.2)
        under_way: list[threading.Thread] = []
        for blow in blows:
            time.sleep(max(0.0, self.begin + blow.at - time.monotonic()))
            thread = threading.Thread(target=self._deal, args=(blow,), name=blow.kind)
            thread.start()
            under_way.append(thread)
        for thread in under_way:
            thread.join()

    def _deal(self, blow: Blow) -> None:
        self.log.append(f"{blow.at:6.1f} s  {blow.kind} for {blow.seconds:.1f} s")
        BLOWS[blow.kind].deal(self, blow)
        self.done[blow.kind] += 1

    def make_good(self) -> None:
        """Remove all faults."""
        self.fleet.control.clear_faults()
        for server in scale.SERVERS:
            self.fleet.control.set_reachable(True, server=server)
        for member in self.fleet.keeper.members:
            member.thaw(for_good=True)
        for gate in self.fleet.members("gate to"):
            send(SIGUSR2, gate.family()[:1])

    # --- Coolify -------------------------------------------------------------------------------

    def fault_for(self, lasting: float, kind: str, **fields: Any) -> None:
        number = self.fleet.control.add_fault(kind, **fields)
        time.sleep(lasting)
        self.fleet.control.remove_fault(number)

    def fault_some_times(self, blow: Blow, kind: str, **fields: Any) -> None:
        """The fault hits the next one to three victims, whenever they come."""
        self.fleet.control.add_fault(kind, times=1 + round(2 * blow.luck), **fields)

    def restart_coolify(self, blow: Blow) -> None:
        self.fleet.control.restart_coolify(outage_seconds=blow.seconds)

    def lose_server(self, blow: Blow) -> None:
        server = pick(scale.SERVERS, blow)
        self.fleet.control.set_reachable(False, server=server)
        time.sleep(blow.seconds)
        self.fleet.control.set_reachable(True, server=server)

    def crash_container(self, blow: Blow) -> None:
        running = self.fleet.control.state()["containers"]
        if running:
            application = pick(running, blow)["application_uuid"]
            self.crashed.add(application)
            with suppress(ValueError):  # the container has ended meanwhile
                self.fleet.control.crash_container(application)

    def delete_application(self, blow: Blow) -> None:
        """Delete an application as if by hand in Coolify. Its container may survive."""
        applications = self.fleet.control.state()["applications"]
        if applications:
            uuid = pick(applications, blow)["uuid"]
            self.deleted.add(uuid)
            with suppress(ValueError):
                self.fleet.control.delete_application(uuid, keep_container=blow.luck * 7 % 1 < 0.3)

    # --- Processes -----------------------------------------------------------------------------

    def kill(self, blow: Blow, word: str) -> None:
        self._victim(word, blow).kill()

    def kill_leader(self, blow: Blow, word: str) -> None:
        self._victim(word, blow).kill_leader()

    def kill_child(self, blow: Blow, word: str) -> None:
        children = self._victim(word, blow).family()[1:]
        if children:
            send(SIGKILL, [children[int(blow.luck * 1000) % len(children)]])

    def freeze(self, blow: Blow, word: str, *, seconds: float | None = None) -> None:
        member = self._victim(word, blow)
        member.freeze()
        time.sleep(seconds or blow.seconds)
        member.thaw()

    def pause_node(self, blow: Blow) -> None:
        """Pause a whole node, as when its virtual machine is moved.

        Its SQL statements are slow before the pause, so it is probably paused between reading and
        writing: what it read is outdated when it writes.
        """
        gate = self._victim("gate to postgres", blow)
        number = gate.name.split()[-1]
        node = [member for member in self.fleet.members("") if member.name.split()[-1] == number]
        send(SIGUSR1, gate.family()[:1])
        time.sleep(0.5 + blow.luck)
        for member in node:
            member.freeze()
        send(SIGUSR2, gate.family()[:1])
        time.sleep(scale.LONGER_THAN_EVERY_LEASE)
        for member in node:
            member.thaw()

    def slow_postgres(self, blow: Blow) -> None:
        gate = self._victim("gate to postgres", blow)
        send(SIGUSR1, gate.family()[:1])
        time.sleep(blow.seconds)
        send(SIGUSR2, gate.family()[:1])

    def refuse_workers(self, blow: Blow) -> None:
        """Workers cannot reach the public address, and bots can: hairpin NAT, a private CA."""
        gate = self._victim("gate to web", blow)
        send(SIGHUP, gate.family()[:1])
        time.sleep(4 * blow.seconds)
        send(SIGUSR2, gate.family()[:1])

    def _victim(self, word: str, blow: Blow) -> Member:
        return pick(self.fleet.members(word), blow)

    # --- PostgreSQL ----------------------------------------------------------------------------

    def end_connections(self, blow: Blow) -> None:
        with suppress(Exception):  # PostgreSQL may be down
            self.fleet.end_all_connections()

    def restart_postgres(self, blow: Blow) -> None:
        with ONE_RESTART:
            self.fleet.kill_postgres()
            time.sleep(min(blow.seconds, 3.0))
            self.fleet.start_postgres()


ONE_RESTART = threading.Lock()


def pick(from_: Any, blow: Blow) -> Any:
    return from_[int(blow.luck * len(from_)) % len(from_)]


@dataclass(frozen=True)
class Kind:
    deal: Callable[[Havoc, Blow], None]
    weight: int = 2


def _answers(kind: str, path: str, *, method: str | None = None, **fields: Any) -> Kind:
    def deal(havoc: Havoc, blow: Blow) -> None:
        probability = 0.4 + 0.6 * blow.luck
        havoc.fault_for(
            blow.seconds, kind, path=path, method=method, probability=probability, **fields
        )

    return Kind(deal)


def _work(kind: str, *, weight: int = 1, **fields: Any) -> Kind:
    return Kind(lambda havoc, blow: havoc.fault_some_times(blow, kind, **fields), weight)


def _lasting(kind: str) -> Kind:
    return Kind(lambda havoc, blow: havoc.fault_for(min(blow.seconds, 2.0), kind), 1)


BLOWS: dict[str, Kind] = {
    "Coolify answers 500": _answers("error", ANYWHERE, status=500),
    "Coolify answers 502 to starts": _answers("error", STARTS, status=502),
    "Coolify answers 503 to stops": _answers("error", STOPS, status=503),
    "Coolify answers 429": _answers("error", ANYWHERE, status=429, retry_after=1),
    "Coolify is slow": _answers("latency", ANYWHERE, seconds=1.0),
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
    "statuses freeze": _lasting("statuses_freeze"),
    "running containers are overlooked": _work("container_overlooked", weight=3),
    "the API is disabled": _lasting("api_disabled"),
    "the address is refused": _lasting("address_refused"),
    "the token is another team's": Kind(
        lambda havoc, blow: havoc.fault_for(2 * blow.seconds, "wrong_team")
    ),
    "Coolify restarts": Kind(Havoc.restart_coolify, 1),
    "a server is lost": Kind(Havoc.lose_server, 1),
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
