"""One call to Coolify, and the gate it passes before it is made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from coolify.client.errors import CoolifyError


class CallClass(StrEnum):
    """What a call is for, in the order in which the budget serves them."""

    URGENT = "urgent"  # start, stop, cancel, create, environment, delete
    WATCH = "watch"  # lists and single readings
    TEXT = "text"  # descriptions


# All calls that the client makes, so that each can be counted from its first on.
CALLS: dict[CallClass, tuple[str, ...]] = {
    CallClass.URGENT: (
        "cancel_deployment",
        "create_application",
        "delete_application",
        "restart",
        "set_envs",
        "start",
        "stop",
        "update_application",
    ),
    CallClass.WATCH: (
        "application",
        "application_deployments",
        "applications",
        "deployment",
        "deployments",
        "environments",
        "envs",
        "logs",
        "projects",
        "servers",
        "version",
    ),
    CallClass.TEXT: ("update_application",),
}


@dataclass(frozen=True)
class Call:
    name: str
    call_class: CallClass
    method: str
    path: str

    @property
    def only_reads(self) -> bool:
        return self.method == "GET"


@dataclass(frozen=True)
class Outcome:
    """How one HTTP request ended: `error` is None when it brought a usable answer."""

    seconds: float
    status: int | None = None
    error: CoolifyError | None = None
    # X-RateLimit-Limit and X-RateLimit-Remaining: others may spend from the same budget.
    limit: int | None = None
    remaining: int | None = None


class Gate(Protocol):
    """Asked around every single HTTP request, repeats included.

    `before` grants at once or raises BudgetExhausted; it never sleeps. What it returns is
    handed back to `after`, so that a gate can know its own permit again.
    """

    def before(self, call: Call) -> Any: ...

    def after(self, call: Call, outcome: Outcome, permit: Any) -> None: ...


class OpenGate:
    """Lets everything through: for scripts and tests that share no budget with anyone."""

    def before(self, call: Call) -> None:
        return None

    def after(self, call: Call, outcome: Outcome, permit: None) -> None:
        return None
