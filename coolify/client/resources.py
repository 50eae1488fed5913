"""Coolify's answers as typed values.

Tolerant where that is harmless: extra fields are ignored, missing ones are None.
Strict where it matters: an item without its uuid, or a list that is not a list, raises
MalformedAnswer. A broken answer must never look like an empty pool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from coolify.client.parsing import Item, flag, number, required, subobject, text, time

APPLICATION_IN_LINK = re.compile(r"/application/([^/]+)/deployment/")


@dataclass(frozen=True)
class ApplicationStatus:
    """`state:health`, such as `running:healthy`.

    It may be a minute old, and it freezes while the server is unreachable. One `exited` proves
    nothing.
    """

    state: str
    health: str = "unknown"

    @classmethod
    def parse(cls, text: object) -> ApplicationStatus:
        if not isinstance(text, str) or not text.strip():
            return cls(state="unknown")
        # Older betas wrote `running (healthy)`.
        state, _, health = text.strip().replace(" (", ":").rstrip(")").partition(":")
        return cls(state=state.strip().lower(), health=health.strip().lower() or "unknown")

    def __str__(self) -> str:
        return f"{self.state}:{self.health}"

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def is_exited(self) -> bool:
        return self.state in {"exited", "stopped"}

    @property
    def is_restarting(self) -> bool:
        return self.state == "restarting"

    @property
    def is_failed(self) -> bool:
        return self.state in {"degraded", "error"}


class DeploymentStatus(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled-by-user"


ACTIVE_DEPLOYMENT = frozenset({DeploymentStatus.QUEUED, DeploymentStatus.IN_PROGRESS})
ENDED_DEPLOYMENT = frozenset(
    {DeploymentStatus.FINISHED, DeploymentStatus.FAILED, DeploymentStatus.CANCELLED}
)


@dataclass(frozen=True)
class Server:
    uuid: str
    name: str = ""
    is_reachable: bool | None = None
    is_usable: bool | None = None
    concurrent_builds: int | None = None
    deployment_queue_limit: int | None = None

    @classmethod
    def parse(cls, item: Item) -> Server:
        settings = subobject(item, "settings")
        merged = {**settings, **item}
        return cls(
            uuid=required(item, "uuid"),
            name=text(item, "name") or "",
            is_reachable=flag(merged, "is_reachable"),
            is_usable=flag(merged, "is_usable"),
            concurrent_builds=number(settings, "concurrent_builds"),
            deployment_queue_limit=number(settings, "deployment_queue_limit"),
        )


@dataclass(frozen=True)
class Cleanup:
    """When and how a server's Docker is cleaned up. `is_forced`: at these times, however full its
    disk is. `frequency` is a cron expression, or a word such as `daily`."""

    keeps_no_images: bool = False
    is_forced: bool = True
    frequency: str = ""

    @classmethod
    def parse(cls, item: Item) -> Cleanup:
        return cls(
            keeps_no_images=bool(flag(item, "disable_application_image_retention")),
            is_forced=flag(item, "force_docker_cleanup") is not False,
            frequency=text(item, "docker_cleanup_frequency") or "",
        )


@dataclass(frozen=True)
class Project:
    uuid: str
    name: str = ""

    @classmethod
    def parse(cls, item: Item) -> Project:
        return cls(uuid=required(item, "uuid"), name=text(item, "name") or "")


@dataclass(frozen=True)
class Environment:
    name: str
    id: int | None = None
    uuid: str | None = None

    @classmethod
    def parse(cls, item: Item) -> Environment:
        # Older versions give environments no uuid. The API accepts the name everywhere.
        return cls(name=required(item, "name"), id=number(item, "id"), uuid=text(item, "uuid"))


@dataclass(frozen=True)
class Application:
    uuid: str
    status: ApplicationStatus
    name: str = ""
    description: str | None = None
    environment_id: int | None = None
    restart_count: int | None = None
    created_at: datetime | None = None
    server_reachable: bool | None = None
    server_uuid: str | None = None

    @classmethod
    def parse(cls, item: Item) -> Application:
        server = subobject(subobject(item, "destination"), "server")
        return cls(
            uuid=required(item, "uuid"),
            status=ApplicationStatus.parse(item.get("status")),
            name=text(item, "name") or "",
            description=text(item, "description"),
            environment_id=number(item, "environment_id"),
            restart_count=number(item, "restart_count"),
            created_at=time(item, "created_at"),
            server_reachable=flag(item, "server_status"),
            server_uuid=text(server, "uuid"),
        )


@dataclass(frozen=True)
class ServerResource:
    """An application, database or service on a server, as its short list shows it."""

    uuid: str
    status: ApplicationStatus

    @classmethod
    def parse(cls, item: Item) -> ServerResource:
        return cls(uuid=required(item, "uuid"), status=ApplicationStatus.parse(item.get("status")))


@dataclass(frozen=True)
class CreatedApplication:
    uuid: str

    @classmethod
    def parse(cls, item: Item) -> CreatedApplication:
        return cls(uuid=required(item, "uuid"))


@dataclass(frozen=True)
class Deployment:
    """`finished` only means that the container was started; its status follows seconds later."""

    uuid: str
    status: str = ""
    application_uuid: str | None = None
    application_name: str | None = None
    created_at: datetime | None = None

    @classmethod
    def parse(cls, item: Item) -> Deployment:
        return cls(
            uuid=required(item, "deployment_uuid"),
            status=text(item, "status") or "",
            application_uuid=_application_of(item),
            application_name=text(item, "application_name"),
            created_at=time(item, "created_at"),
        )

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE_DEPLOYMENT

    @property
    def is_ended(self) -> bool:
        """An unknown status is neither active nor ended."""
        return self.status in ENDED_DEPLOYMENT


def _application_of(item: Item) -> str | None:
    """A single deployment contains its application; one in a list, only a link to its page."""
    link = APPLICATION_IN_LINK.search(text(item, "deployment_url") or "")
    return text(subobject(item, "application"), "uuid") or (link[1] if link else None)


@dataclass(frozen=True)
class Cancellation:
    """A deployment's status after a cancel request: cancelled, or ended before that."""

    status: str
