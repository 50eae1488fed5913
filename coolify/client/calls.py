"""One call to Coolify, and the gate that it passes first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from coolify.client.errors import CoolifyError


class CallClass(StrEnum):
    """What a call is for, ordered by how much of the budget it may use."""

    OBSERVE = "observe"  # the lists of one observation, on which starts and stops depend
    URGENT = "urgent"  # start, stop, cancel, create, environment, delete
    WATCH = "watch"  # lists and single reads
    TEXT = "text"  # descriptions, logs of deployments, links to Coolify


# Every call that the client makes, so metrics can show each one from the start.
CALLS: dict[CallClass, tuple[str, ...]] = {
    CallClass.URGENT: (
        "cancel_deployment",
        "create_application",
        "delete_application",
        "set_envs",
        "set_webhook",
        "start",
        "stop",
        "update_application",
    ),
    CallClass.OBSERVE: ("applications", "deployments", "server_resources"),
    CallClass.WATCH: (
        "application",
        "application_deployments",
        "applications",
        "deployment",
        "deployments",
        "destinations",
        "docker_cleanup",
        "environments",
        "image_tags",
        "logs",
        "projects",
        "servers",
        "update_application",
        "version",
        "webhook_notifications",
    ),
    CallClass.TEXT: ("deployment", "environments", "update_application"),
}

# What each call does, for sentences: "the call to list applications".
_PURPOSES = {
    "application": "read an application",
    "application_deployments": "list an application's deployments",
    "applications": "list applications",
    "cancel_deployment": "cancel a deployment",
    "create_application": "create an application",
    "delete_application": "delete an application",
    "deployment": "read a deployment",
    "deployments": "list deployments",
    "destinations": "list destinations",
    "docker_cleanup": "read the clean-up settings",
    "environments": "list environments",
    "image_tags": "list an image's tags",
    "logs": "read a container's log",
    "projects": "list projects",
    "server_resources": "list a server's resources",
    "servers": "list servers",
    "set_envs": "set the environment variables",
    "set_webhook": "set the webhook",
    "start": "start an application",
    "stop": "stop an application",
    "update_application": "change an application",
    "version": "read the version",
    "webhook_notifications": "read the webhook",
}


@dataclass(frozen=True)
class Call:
    name: str
    call_class: CallClass
    method: str
    path: str

    @property
    def purpose(self) -> str:
        """For people: completes "the call to …" and "may not …"."""
        return _PURPOSES.get(self.name, self.name.replace("_", " "))

    @property
    def only_reads(self) -> bool:
        return self.method == "GET"


@dataclass(frozen=True)
class Outcome:
    """How one HTTP request ended: `error` is None if the answer was usable."""

    seconds: float
    status: int | None = None
    error: CoolifyError | None = None
    # X-RateLimit-Limit and X-RateLimit-Remaining: other programs may share the limit.
    limit: int | None = None
    remaining: int | None = None


class Gate(Protocol):
    """Called before and after every single HTTP request, retries included.

    `before` grants at once or raises BudgetExhausted; it never sleeps. `after` receives the permit
    that `before` returned.
    """

    def before(self, call: Call) -> Any: ...

    def after(self, call: Call, outcome: Outcome, permit: Any) -> None: ...


class OpenGate:
    """Lets every call through, for scripts and tests that share no budget."""

    def before(self, call: Call) -> None:
        return None

    def after(self, call: Call, outcome: Outcome, permit: None) -> None:
        return None
