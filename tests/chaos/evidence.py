"""The evidence of a run: the histories in the database and the simulator's record.

It is read with plain SQL into plain values, without Botpool's own code.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.clients import Clients
from tests.chaos.fleet import Fleet
from tests.chaos.havoc import Havoc

ENDS = ("DONE", "FAILED", "CANCELLED")
_SECONDS = "extract(epoch FROM {0})::float8 AS {0}"


@dataclass(frozen=True)
class Bot:
    id: int
    platform: str
    status: str
    priority: int
    failure_reason: str
    failure_cause: str
    slot_name: str
    created_at: float
    ended_at: float | None
    queue_timeout: float
    client_id: int | None = None


@dataclass(frozen=True)
class Event:
    """A row of a bot's history; `began` is when its transaction began, `committed` when other
    transactions could see it."""

    id: int
    bot_id: int
    at: float
    from_status: str
    to_status: str
    reason: str
    actor: str
    slot_name: str
    epoch: int | None
    committed: float
    began: float

    def __str__(self) -> str:
        move = f"{self.from_status or 'new'} → {self.to_status}"
        where = f" in {self.slot_name} epoch {self.epoch}" if self.slot_name else ""
        return f"{self.at:.2f} bot {self.bot_id}: {move}{where} by {self.actor}: {self.reason}"


@dataclass(frozen=True)
class Transition:
    id: int
    slot_id: int
    slot_name: str
    at: float
    from_status: str
    to_status: str
    reason: str
    bot_id: int | None
    epoch: int
    coolify_uuid: str
    actor: str

    @property
    def is_assignment(self) -> bool:
        return self.to_status == "deploying" and self.from_status != "deploying"

    def __str__(self) -> str:
        move = f"{self.from_status or 'new'} → {self.to_status}"
        return (
            f"{self.at:.2f} {self.slot_name} epoch {self.epoch} bot {self.bot_id}: {move}"
            f" by {self.actor}: {self.reason}"
        )


@dataclass(frozen=True)
class Delivery:
    """What became of the webhook about a bot's end."""

    bot_id: int
    event_id: int
    receiver: str
    ended_at: float
    noted: bool
    due: bool
    delivered_at: float | None
    attempts: int


@dataclass(frozen=True)
class ServerChange:
    """A new state of a server, by Botpool's verdict."""

    server: str
    state: str
    at: float
    committed: float


@dataclass
class Evidence:
    bots: dict[int, Bot]
    events: list[Event]
    transitions: list[Transition]
    containers: list[dict[str, Any]]
    pulls: list[dict[str, Any]]
    coolify_events: list[dict[str, Any]]
    clients: Clients
    havoc: Havoc
    fences: list[int]  # with which the witnesses wrote, in order of writing
    late: list[str]  # what the witnesses tried on outdated data
    deliveries: list[Delivery] = field(default_factory=list)
    received: dict[str, set[int]] = field(default_factory=dict)  # events, by receiver
    # When a description was wrong for the longest time: from, until.
    mirror: dict[Any, tuple[float, float]] = field(default_factory=dict)
    server_changes: list[ServerChange] = field(default_factory=list)
    server_of: dict[tuple[str, int], str] = field(default_factory=dict)  # by slot and epoch
    collected_at: float = 0.0

    def __post_init__(self) -> None:
        self.events_of: dict[int, list[Event]] = defaultdict(list)
        for event in self.events:
            self.events_of[event.bot_id].append(event)
        self.containers_of: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for container in self.containers:
            if container["bot_id"] is not None:
                self.containers_of[int(container["bot_id"])].append(container)

    def end_of(self, bot_id: int) -> Event | None:
        return next((each for each in self.events_of[bot_id] if each.to_status in ENDS), None)

    def history(self, bot_id: int) -> list[str]:
        lines = [(event.at, str(event)) for event in self.events_of[bot_id]]
        for each in self.containers_of[bot_id]:
            until = f"{each['ended_at']:.2f}" if each["ended_at"] else "now"
            lives = [
                f"{life['startedAt']:.2f}–{life['endedAt']:.2f} {life['reason']}"
                f" ({life['reported']})"
                for life in each["past_lives"]
            ]
            text = (
                f"{each['started_at']:.2f} container {each['id']} epoch {each['epoch']} until"
                f" {until} ({each['end_reason']}), plan {each['plan'].get('name')}, {lives}"
            )
            lines.append((each["started_at"], text))
        return [text for _, text in sorted(lines)]

    def survivors(self) -> set[int]:
        """The ids of containers that outlived their application, which Coolify no longer shows."""
        deleted: dict[str, float] = {}
        for each in self.coolify_events:
            if each["kind"] == "application deleted":
                deleted.setdefault(each["application"], each["at"])
        return {
            each["id"]
            for each in self.containers
            if each["application_uuid"] in deleted
            and (each["ended_at"] or 1e12) > deleted[each["application_uuid"]] + 0.001
        }


def collect(fleet: Fleet, clients: Clients, havoc: Havoc) -> Evidence:
    record = fleet.control.record()
    return Evidence(
        bots={bot.id: bot for bot in _bots(fleet)},
        events=_events(fleet),
        transitions=_transitions(fleet),
        containers=record["containers"],
        pulls=record["pulls"],
        coolify_events=record["events"],
        clients=clients,
        havoc=havoc,
        fences=[row[0] for row in fleet.ask("SELECT fence FROM chaos_witness ORDER BY id")],
        late=[row[0] for row in fleet.ask("SELECT what FROM chaos_late")],
        deliveries=_deliveries(fleet),
        received={name: set(each.received) for name, each in fleet.receivers.items()},
        server_changes=_server_changes(fleet),
        server_of=_server_of(fleet),
        collected_at=time.time(),
    )


def _bots(fleet: Fleet) -> list[Bot]:
    times = ", ".join(_SECONDS.format(name) for name in ("created_at", "ended_at", "queue_timeout"))
    plain = "id, platform, status, priority, failure_reason, failure_cause, slot_name"
    rows = fleet.ask(f"SELECT {plain}, {times}, client_id FROM bots_bot ORDER BY id")
    return [Bot(*row) for row in rows]


def _events(fleet: Fleet) -> list[Event]:
    rows = fleet.ask(
        f"SELECT id, bot_id, {_SECONDS.format('at')}, from_status, to_status, reason, actor,"
        " slot_name, epoch, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8,"
        " extract(epoch FROM chaos_began)::float8"
        " FROM bots_botevent ORDER BY id"
    )
    return [Event(*row) for row in rows]


def _transitions(fleet: Fleet) -> list[Transition]:
    rows = fleet.ask(
        f"SELECT id, slot_id, slot_name, {_SECONDS.format('at')}, from_status, to_status, reason,"
        " bot_id, epoch, coolify_uuid, actor FROM slots_slottransition ORDER BY id"
    )
    return [Transition(*row) for row in rows]


def _deliveries(fleet: Fleet) -> list[Delivery]:
    rows = fleet.ask(
        "SELECT event.bot_id, event.id, regexp_replace(webhook.url, '.*/', ''),"
        " extract(epoch FROM event.at)::float8, delivery.id IS NOT NULL,"
        " delivery.due_at IS NOT NULL, extract(epoch FROM delivery.delivered_at)::float8,"
        " coalesce(delivery.attempts, 0)"
        " FROM bots_botevent AS event JOIN bots_webhook AS webhook USING (bot_id)"
        " LEFT JOIN bots_webhookdelivery AS delivery"
        " ON delivery.webhook_id = webhook.id AND delivery.event_id = event.id"
        f" WHERE event.to_status IN {ENDS} AND event.from_status <> event.to_status"
    )
    return [Delivery(*row) for row in rows]


def _server_changes(fleet: Fleet) -> list[ServerChange]:
    rows = fleet.ask(
        f"SELECT uuid, state, {_SECONDS.format('at')},"
        " extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM chaos_server ORDER BY id"
    )
    return [ServerChange(*row) for row in rows]


def _server_of(fleet: Fleet) -> dict[tuple[str, int], str]:
    rows = fleet.ask("SELECT slot_name, epoch, server_uuid FROM slots_deployment")
    return {(slot, epoch): server for slot, epoch, server in rows}
