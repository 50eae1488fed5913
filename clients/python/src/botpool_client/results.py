"""What Botpool answers, as frozen dataclasses.

Fields that a newer Botpool adds are ignored. Statuses and codes are plain strings, because a newer
one may add values; compare them with the names here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class BotStatus(StrEnum):
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    DEPLOYING = "DEPLOYING"
    JOINING_CALL = "JOINING_CALL"
    IN_WAITING_ROOM = "IN_WAITING_ROOM"
    IN_CALL = "IN_CALL"
    LEAVING = "LEAVING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL = frozenset({BotStatus.DONE, BotStatus.FAILED, BotStatus.CANCELLED})


class Platform(StrEnum):
    GOOGLE_MEET = "google-meet"
    TEAMS = "teams"
    ZOOM = "zoom"


# --- Bots ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WaitingFor:
    """`code` is for programs, `message` for people."""

    code: str
    message: str
    position: int | None = None
    expected_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Bot:
    """`queue_position` and `estimated_wait_ms` are known only of a queued bot, and not in lists."""

    id: int
    correlation_id: str
    status: str
    platform: str
    meeting_url: str
    bot_display_name: str
    priority: int
    slot_name: str | None = None
    coolify_service_uuid: str | None = None
    failure_reason: str | None = None
    failure_code: str | None = None
    created_at: datetime
    queued_at: datetime | None = None
    started_at: datetime | None = None
    last_heartbeat_at: datetime | None = None
    ended_at: datetime | None = None
    waiting_for: WaitingFor | None = None
    queue_position: int | None = None
    estimated_wait_ms: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL


@dataclass(frozen=True, kw_only=True)
class PlacedBot:
    """The answer to a request for a bot.

    `created`: false if a live bot with the same `dedupe_key` was found. `replayed`: an earlier
    request with the same idempotency key was answered, perhaps by a try whose answer was lost."""

    bot: Bot
    queue_position: int | None = None
    estimated_wait_ms: int | None = None
    created: bool = True
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class BotPage:
    bots: tuple[Bot, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, kw_only=True)
class BotEvent:
    """A change of status; a note if `from_status` equals `to_status`."""

    id: int
    at: datetime
    from_status: str | None = None
    to_status: str
    reason: str
    actor: str
    correlation_id: str
    slot_name: str | None = None
    coolify_service_uuid: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, kw_only=True)
class EventPage:
    events: tuple[BotEvent, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogLine:
    at: datetime | None = None
    text: str


@dataclass(frozen=True, kw_only=True)
class BotLog:
    """A log that was kept of a failure. While `status` is "wanted", it is still being read."""

    id: int
    source: str
    status: str
    failure_code: str
    slot_name: str
    failed_at: datetime
    read_at: datetime | None = None
    truncated: bool = False
    lines: tuple[LogLine, ...] = ()
    not_kept_code: str | None = None
    not_kept_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogList:
    logs: tuple[BotLog, ...]


# --- The pool -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SlotCounts:
    idle: int = 0
    deploying: int = 0
    busy: int = 0
    stopping: int = 0
    error: int = 0


@dataclass(frozen=True, kw_only=True)
class PoolOfPlatform:
    max_size: int
    total: int
    slots: SlotCounts
    queued: int


@dataclass(frozen=True, kw_only=True)
class Pool:
    platforms: Mapping[str, PoolOfPlatform]


@dataclass(frozen=True, kw_only=True)
class PressureOfPlatform:
    free: int
    waiting: int
    expected_wait_ms: int | None = None
    would_place_now: bool


@dataclass(frozen=True, kw_only=True)
class Pressure:
    platforms: Mapping[str, PressureOfPlatform]


@dataclass(frozen=True, kw_only=True)
class Slot:
    slot_name: str
    platform: str
    status: str
    status_since: datetime
    container_status: str
    coolify_service_uuid: str | None = None
    bot_id: int | None = None
    epoch: int
    cordoned: bool
    error: str | None = None
    recovery_attempts: int
    created_at: datetime
    last_used_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SlotList:
    slots: tuple[Slot, ...]


@dataclass(frozen=True, kw_only=True)
class Waiter:
    bot_id: int
    platform: str
    priority: int
    queued_at: datetime
    timeout_at: datetime
    queue_position: int
    estimated_wait_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Queue:
    """`total` counts also those that are not listed."""

    waiters: tuple[Waiter, ...]
    total: int


# --- Servers, for operators ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ServerOrder:
    order: str
    since: datetime | None = None
    until: datetime | None = None
    reason: str
    by: str


@dataclass(frozen=True, kw_only=True)
class ServerMaintenance:
    begins: datetime
    ends: datetime
    reason: str
    by: str


@dataclass(frozen=True, kw_only=True)
class ServerImage:
    image: str
    state: str
    confirmed_at: datetime | None = None
    cold_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServerPrepull:
    image: str
    status: str
    detail: str
    since: datetime
    asked_by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Server:
    uuid: str
    name: str
    state: str
    state_since: datetime
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    order: ServerOrder | None = None
    maintenance: ServerMaintenance | None = None
    slots: SlotCounts
    build_places: int
    free_build_places: int
    images: tuple[ServerImage, ...] = ()
    prepulls: tuple[ServerPrepull, ...] = ()
    progress: str | None = None
    last_meeting_ends_at: datetime | None = None
    reported_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ServerList:
    servers: tuple[Server, ...]
