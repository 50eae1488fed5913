"""The faults that a test can switch on."""

import random
import re
from dataclasses import asdict, dataclass
from typing import Any

from coolify.simulator.messages import Request

# Faults in a single request …
REQUEST_FAULTS = ("error", "latency", "reset_before", "reset_after", "html", "short", "empty")
# … and faults in Coolify's own work or on its servers.
WORLD_FAULTS = (
    "stuck_queued",
    "stuck_in_progress",
    "deployment_fails",
    "pull_fails",
    "stop_ignored",
    "stop_refused",
    "container_survives",
    "cancel_answers_500",
    "statuses_freeze",
    "container_overlooked",
    "api_disabled",
    "member_role",
    "redis_down",
    "database_down",
    "address_refused",
    "wrong_team",
)
KINDS = REQUEST_FAULTS + WORLD_FAULTS


@dataclass
class Fault:
    """What goes wrong, where, how often and how badly; `path` is a regular expression."""

    kind: str
    method: str | None = None
    path: str = ""
    application: str | None = None
    server: str | None = None
    image: str | None = None
    times: int | None = None
    probability: float = 1.0
    status: int = 500
    body: Any = None
    retry_after: int | None = None
    seconds: float = 0.0
    keep: int = 0
    id: int = 0
    hits: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is not a fault: choose from {', '.join(KINDS)}")
        if not 200 <= self.status <= 599:
            raise ValueError("status must be from 200 to 599")
        try:
            re.compile(self.path)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"path is not a regular expression: {error}") from None

    @property
    def spent(self) -> bool:
        return self.times is not None and self.hits >= self.times

    def concerns(self, request: Request) -> bool:
        same_method = self.method in (None, request.method)
        return same_method and re.search(self.path, request.path) is not None

    def strikes_at(self, where: dict[str, str]) -> bool:
        wanted = {"application": self.application, "server": self.server, "image": self.image}
        return all(
            value is None or value == where.get(name, value) for name, value in wanted.items()
        )


class Faults:
    """The faults that are switched on. Callers hold the world's lock."""

    def __init__(self, *, seed: int) -> None:
        self._faults: list[Fault] = []
        self._last_id = 0
        self._random = random.Random(seed)  # noqa: S311 - a seeded plan, not a secret

    def add(self, fault: Fault) -> Fault:
        self._last_id += 1
        fault.id = self._last_id
        self._faults.append(fault)
        return fault

    def remove(self, fault_id: int | None = None) -> None:
        """Remove one fault or, without an id, all of them."""
        self._faults = [each for each in self._faults if fault_id not in (None, each.id)]

    def listing(self) -> list[dict[str, Any]]:
        return [asdict(each) for each in self._faults]

    def for_request(self, request: Request) -> list[Fault]:
        return [
            self._hit(fault)
            for fault in self._faults
            if fault.kind in REQUEST_FAULTS and fault.concerns(request) and self._strikes(fault)
        ]

    def strikes(self, kind: str, **where: str) -> bool:
        for fault in self._faults:
            if fault.kind == kind and fault.strikes_at(where) and self._strikes(fault):
                self._hit(fault)
                return True
        return False

    def _strikes(self, fault: Fault) -> bool:
        return not fault.spent and self._random.random() < fault.probability

    def _hit(self, fault: Fault) -> Fault:
        fault.hits += 1
        return fault
