"""How things are broken during a run, and mended at its end. `blows.py` says what and when."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from signal import SIGKILL
from typing import Any

from tests.chaos import scale
from tests.chaos.fleet import Fleet
from tests.chaos.gate import BE_GOOD, BE_SLOW, REFUSE_WORKERS
from tests.chaos.members import Member, send


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
    # When servers, Coolify and PostgreSQL did not work: from, until.
    servers_away: list[tuple[float, float]] = field(default_factory=list)
    coolify_away: list[tuple[float, float]] = field(default_factory=list)
    postgres_away: list[tuple[float, float]] = field(default_factory=list)
    # When a process was frozen, or dead and not yet back. By its name, such as "worker 1".
    members_away: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    begin: float = 0.0

    def strike(self, blows: list[Blow], kinds: Mapping[str, "Kind"]) -> None:
        """Deal each blow at its time. Blows may overlap."""
        self.begin = time.monotonic()
        under_way: list[threading.Thread] = []
        for blow in blows:
            time.sleep(max(0.0, self.begin + blow.at - time.monotonic()))
            thread = threading.Thread(
                target=self._deal, args=(blow, kinds[blow.kind]), name=blow.kind
            )
            thread.start()
            under_way.append(thread)
        for thread in under_way:
            thread.join()

    def _deal(self, blow: Blow, kind: "Kind") -> None:
        begin = time.time()
        kind.deal(self, blow)
        took = f"{time.strftime('%H:%M:%S', time.gmtime(begin))}, {time.time() - begin:.1f} s"
        self.log.append(f"{blow.at:6.1f} s  {blow.kind} ({took})")
        self.done[blow.kind] += 1

    def make_good(self) -> None:
        """Remove all faults."""
        self.fleet.control.clear_faults()
        for server in scale.SERVERS:
            self.fleet.control.set_reachable(True, server=server)
        for member in self.fleet.keeper.members:
            member.thaw(for_good=True)
        for gate in self.fleet.members("gate to"):
            send(BE_GOOD, gate.family()[:1])
        for receiver in self.fleet.receivers.values():
            receiver.hangs.clear()

    # --- Coolify -------------------------------------------------------------------------------

    def fault_for(self, lasting: float, kind: str, **fields: Any) -> None:
        with _noting(self.coolify_away):
            number = self.fleet.control.add_fault(kind, **fields)
            time.sleep(lasting)
            self.fleet.control.remove_fault(number)

    def fault_some_times(self, blow: Blow, kind: str, **fields: Any) -> None:
        """The fault hits the next one to three victims, whenever they come."""
        self.fleet.control.add_fault(kind, times=1 + round(2 * blow.luck), **fields)

    def restart_coolify(self, blow: Blow) -> None:
        with _noting(self.coolify_away):
            self.fleet.control.restart_coolify(outage_seconds=blow.seconds)
            time.sleep(blow.seconds)

    def lose_server(self, blow: Blow) -> None:
        """Coolify cannot reach it. Its containers run on."""
        self._without_server(pick(scale.SERVERS, blow), 2 * blow.seconds)

    def kill_server(self, blow: Blow) -> None:
        """It goes down with its containers, and comes back without them."""
        server = pick(scale.SERVERS, blow)
        for container in self.fleet.control.state()["containers"]:
            if container["server_uuid"] == server:
                with suppress(ValueError):
                    self.fleet.control.lose_container(container["application_uuid"])
        self._without_server(server, 4 * blow.seconds)

    def _without_server(self, server: str, seconds: float) -> None:
        with _noting(self.servers_away):
            self.fleet.control.set_reachable(False, server=server)
            time.sleep(seconds)
            self.fleet.control.set_reachable(True, server=server)

    def clean_up_images(self, blow: Blow) -> None:
        """The nightly clean-up, on one server; sometimes with all images that are not in use."""
        server = pick(scale.SERVERS, blow)
        if blow.luck * 7 % 1 < 0.5:
            self.fleet.control.prune_images(server=server)
        else:
            self.fleet.control.clean_up(server=server)

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
        member = self._victim(word, blow)
        with self._noting_members(member):
            member.kill()
            time.sleep(scale.RESTART)

    def kill_leader(self, blow: Blow, word: str) -> None:
        member = self._victim(word, blow)
        with self._noting_members(member):
            member.kill_leader()
            time.sleep(scale.RESTART)

    def kill_child(self, blow: Blow, word: str) -> None:
        children = self._victim(word, blow).family()[1:]
        if children:
            send(SIGKILL, [children[int(blow.luck * 1000) % len(children)]])

    def freeze(self, blow: Blow, word: str, *, seconds: float | None = None) -> None:
        member = self._victim(word, blow)
        with self._noting_members(member):
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
        send(BE_SLOW, gate.family()[:1])
        time.sleep(0.5 + blow.luck)
        with self._noting_members(*node):
            for member in node:
                member.freeze()
            send(BE_GOOD, gate.family()[:1])
            time.sleep(scale.LONGER_THAN_EVERY_LEASE)
            for member in node:
                member.thaw()

    def slow_postgres(self, blow: Blow) -> None:
        gate = self._victim("gate to postgres", blow)
        send(BE_SLOW, gate.family()[:1])
        time.sleep(blow.seconds)
        send(BE_GOOD, gate.family()[:1])

    def refuse_workers(self, blow: Blow) -> None:
        """Workers cannot reach the public address, and bots can: hairpin NAT, a private CA."""
        gate = self._victim("gate to web", blow)
        send(REFUSE_WORKERS, gate.family()[:1])
        time.sleep(4 * blow.seconds)
        send(BE_GOOD, gate.family()[:1])

    @contextmanager
    def _noting_members(self, *members: Member) -> Iterator[None]:
        with ExitStack() as stack:
            for member in members:
                stack.enter_context(_noting(self.members_away[member.name]))
            yield

    def _victim(self, word: str, blow: Blow) -> Member:
        return pick(self.fleet.members(word), blow)

    # --- PostgreSQL ----------------------------------------------------------------------------

    def end_connections(self, blow: Blow) -> None:
        with suppress(Exception):  # PostgreSQL may be down
            self.fleet.end_all_connections()

    def restart_postgres(self, blow: Blow) -> None:
        with self.fleet.postgres.change, _noting(self.postgres_away):
            self.fleet.postgres.kill()
            time.sleep(min(blow.seconds, 3.0))
            self.fleet.postgres.start()

    def fail_over(self, blow: Blow) -> None:
        """The primary dies for good, the standby is promoted, and gets a standby of its own."""
        with self.fleet.postgres.change, _noting(self.postgres_away):
            self.fleet.postgres.kill()
            time.sleep(blow.seconds)
            self.fleet.postgres.fail_over()
            self.fleet.postgres.follow()

    def refuse_writes(self, blow: Blow) -> None:
        with _noting(self.postgres_away):
            self._ask(
                "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"
            )
            time.sleep(2 * blow.seconds)
            self._ask("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")

    def fill_disk(self, blow: Blow) -> None:
        with _noting(self.postgres_away):
            self._ask("UPDATE chaos_disk SET is_full = true")
            time.sleep(2 * blow.seconds)
            self._ask("UPDATE chaos_disk SET is_full = false")

    def _ask(self, *statements: str) -> None:
        """Once PostgreSQL is up: another blow may have killed it."""
        with self.fleet.postgres.change:
            for statement in statements:
                self.fleet.ask(statement)

    # --- Clients -------------------------------------------------------------------------------

    def hang_receiver(self, blow: Blow) -> None:
        receiver = self.fleet.receivers["moody"]
        receiver.hangs.set()
        time.sleep(4 * blow.seconds)
        receiver.hangs.clear()


@contextmanager
def _noting(spans: list[tuple[float, float]]) -> Iterator[None]:
    begin = time.time()
    try:
        yield
    finally:
        spans.append((begin, time.time()))


@dataclass(frozen=True)
class Kind:
    deal: Callable[[Havoc, Blow], None]
    weight: int = 2


def pick(from_: Any, blow: Blow) -> Any:
    return from_[int(blow.luck * len(from_)) % len(from_)]
