"""The rows of the simulated Coolify. They are flat: the state file is plain JSON."""

from dataclasses import dataclass, field
from typing import Any

ACTIVE = ("queued", "in_progress")
IMAGES_TO_KEEP = 2
# Coolify's defaults: every night it removes the images that no application keeps.
DOCKER_CLEANUP: dict[str, Any] = {
    "docker_cleanup_frequency": "0 0 * * *",
    "docker_cleanup_threshold": 80,
    "force_docker_cleanup": True,
    "delete_unused_volumes": False,
    "delete_unused_networks": False,
    "disable_application_image_retention": False,
}


@dataclass
class Server:
    id: int
    uuid: str
    name: str
    ip: str
    # Whether SSH works, and what Coolify says about it: it notices a change at its next check.
    reachable: bool = True
    seen_reachable: bool = True
    usable: bool = True
    concurrent_builds: int = 2
    deployment_queue_limit: int = 25
    destinations: list[str] = field(default_factory=list)
    # In the order of their pulls, with the time of each.
    cached_images: list[str] = field(default_factory=list)
    pulled_at: dict[str, float] = field(default_factory=dict)
    docker_cleanup: dict[str, Any] = field(default_factory=lambda: dict(DOCKER_CLEANUP))
    # Without Coolify's proxy, a server whose last container vanished runs no container at all.
    proxy: bool = True
    empty_checks: int = 0

    @property
    def functional(self) -> bool:
        """Whether Coolify, as far as it knows, can work on this server."""
        return self.seen_reachable and self.usable


@dataclass
class Project:
    id: int
    uuid: str
    name: str
    description: str = ""


@dataclass
class Environment:
    id: int
    uuid: str
    name: str
    project_uuid: str


@dataclass
class Application:
    id: int
    uuid: str
    name: str
    environment_id: int
    server_uuid: str
    image_name: str | None
    image_tag: str | None
    created_at: float
    updated_at: float
    description: str | None = None
    fqdn: str | None = None
    status: str = "exited:unhealthy"
    restart_count: int = 0
    max_restart_count: int = 10
    last_restart_at: float | None = None
    last_online_at: float | None = None
    tags: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def image(self) -> str:
        tag = self.image_tag or "latest"
        if tag.startswith("sha256-"):
            return f"{self.image_name}@{tag.replace('-', ':', 1)}"
        return f"{self.image_name}:{tag}"

    @property
    def images_to_keep(self) -> int:
        chosen = self.options.get("docker_images_to_keep")
        return IMAGES_TO_KEEP if chosen is None else int(chosen)

    @property
    def keeps_container_name(self) -> bool:
        return bool(self.options.get("is_consistent_container_name_enabled"))


@dataclass
class EnvironmentVariable:
    id: int
    uuid: str
    application_uuid: str
    key: str
    value: str | None
    created_at: float
    updated_at: float
    is_preview: bool = False
    is_literal: bool = False
    is_multiline: bool = False
    is_shown_once: bool = False
    is_runtime: bool = True
    is_buildtime: bool = True
    comment: str | None = None


@dataclass
class Deployment:
    id: int
    uuid: str
    application_uuid: str
    application_id: int
    application_name: str
    server_uuid: str
    server_name: str
    created_at: float
    updated_at: float
    status: str = "queued"
    force: bool = False
    restart_only: bool = False
    stuck: bool = False
    finished_at: float | None = None
    # As in Coolify: output, type, timestamp, hidden.
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def active(self) -> bool:
        return self.status in ACTIVE


@dataclass
class Job:
    """Work for one of Coolify's job workers; `step` runs at `due_at`."""

    id: int
    kind: str
    application_uuid: str
    deployment_uuid: str | None = None
    docker_cleanup: bool = False
    step: str = "begin"
    running: bool = False
    due_at: float | None = None
    pull_id: int | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Pull:
    id: int
    server_uuid: str
    image: str
    application_uuid: str
    deployment_uuid: str
    cold: bool
    started_at: float
    ended_at: float | None = None
    outcome: str = "running"
    overlapped: bool = False


@dataclass
class Container:
    """A container and its bot; each restart by Docker is a new life of the same row."""

    id: int
    application_uuid: str
    server_uuid: str
    deployment_uuid: str
    image: str
    started_at: float
    cold: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    state: str = "running"
    lives: int = 1
    life_started_at: float = 0.0
    ended_at: float | None = None
    end_reason: str | None = None
    exit_code: int | None = None
    restart_due: float | None = None
    log: list[str] = field(default_factory=list)
    # The bot: its identity, its last report, and its next actions.
    bot_id: str | None = None
    epoch: int | None = None
    api_url: str | None = None
    token: str | None = None
    reported: str | None = None
    told_to_leave: bool = False
    plan: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    step_due: float | None = None
    heartbeat_due: float | None = None
    trouble_due: float | None = None
    attempts: int = 0
    joined_at: float | None = None
    in_call_since: float | None = None
    # One entry per ended life, with its times and its reason.
    past_lives: list[dict[str, Any]] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.ended_at is None
