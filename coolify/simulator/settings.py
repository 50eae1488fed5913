"""The simulator's settings and API tokens."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from coolify.simulator.values import check_fields

DEFAULT_TOKEN = "1|botpool-simulator"  # noqa: S105 - a made-up token for a made-up Coolify
DEFAULT_PROJECT = "simulated-project"
DEFAULT_SERVER = "simulated-server"
DEFAULT_ENVIRONMENT = "production"
ABILITIES = ("read", "write", "deploy", "root", "read:sensitive")


@dataclass(frozen=True)
class Token:
    """`plain` is what a client sends. Tokens of the same `user` share a rate limit."""

    plain: str = DEFAULT_TOKEN
    abilities: frozenset[str] = frozenset({"root"})
    user: str = "operator"
    team: bool = True
    role: str = "admin"

    @property
    def may_change(self) -> bool:
        return bool(self.abilities - {"read"})

    def allows(self, ability: str) -> bool:
        return "root" in self.abilities or ability in self.abilities

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Parse `id|secret` (all abilities) or `id|secret:read,write,…`."""
        plain, _, listed = text.partition(":")
        abilities = frozenset(listed.split(",")) if listed else frozenset({"root"})
        if "|" not in plain or not abilities <= set(ABILITIES):
            raise ValueError(
                f"{text!r} is not a token: write ID|SECRET or ID|SECRET:ABILITY,… "
                f"with abilities from {', '.join(ABILITIES)}"
            )
        return cls(plain=plain, abilities=abilities)


@dataclass
class Settings:
    """Durations are in seconds, as in a real Coolify; the simulator divides them by `speed`."""

    host: str = "127.0.0.1"
    port: int = 0
    # Names under which the page and the control path are open, besides addresses and short names.
    allowed_hosts: list[str] = field(default_factory=list)
    speed: float = 1.0
    seed: int = 0
    state_file: str | None = None
    tokens: list[Token] = field(default_factory=lambda: [Token()])
    version: str = "4.3.11"
    servers: list[str] = field(default_factory=lambda: [DEFAULT_SERVER])
    # Calls per real minute, whatever the speed: callers count in real minutes too.
    rate_limit: int | None = 200
    concurrent_builds: int = 2
    deployment_queue_limit: int = 25
    job_workers: int = 4
    cold_pull_seconds: float = 420.0
    warm_pull_seconds: float = 5.0
    start_seconds: float = 25.0
    overlap_seconds: float = 10.0
    stop_seconds: float = 3.0
    refused_stop_seconds: float = 0.7
    delete_seconds: float = 10.0
    stop_grace_seconds: float = 30.0
    agent_seconds: float = 60.0
    # How long after the end of a deployment its status is written.
    soonest_status_seconds: float = 0.3
    latest_status_seconds: float = 1.6
    # How long an application counts as degraded if its container vanishes after a restart.
    degraded_seconds: float = 30.0
    # How many checks of a server without any container change nothing.
    empty_server_checks: int = 3
    logs_seconds: float = 1.0
    max_restart_count: int = 10
    # Between two nightly clean-ups.
    cleanup_seconds: float = 86_400.0
    # How long SSH takes to find out that a server refuses it.
    ssh_seconds: float = 6.0
    longest_environment: int = 100_000  # bytes: 97.7 kB
    # Real seconds that each call takes at least and at most, whatever the speed.
    shortest_call: float = 0.0
    longest_call: float = 0.0
    # Newer versions refuse a token after that many answers of 401 or 403 in a minute.
    refusals_allowed: int | None = None
    # Pads each application in an answer to this many bytes. A real Coolify's have about 5,200.
    application_bytes: int = 0
    # None: as in Coolify, an object once the rows are no longer stored in the order of their ids.
    deployments_as_object: bool | None = None
    # None of Coolify's notifications go to a private address unless its host is listed here.
    webhook_allowed_hosts: list[str] = field(default_factory=list)
    webhook_url: str | None = None
    webhook_enabled: bool = True
    webhook_events: list[str] = field(
        default_factory=lambda: [
            "deployment_failed",
            "restart_limit_reached",
            "server_unreachable",
            "server_reachable",
        ]
    )
    # The share of bots that crash, fail, hang, fall silent or exit early.
    mischief: float = 0.0
    boot_seconds: float = 3.0
    join_seconds: float = 10.0
    waiting_room_seconds: float = 20.0
    shortest_meeting_seconds: float = 120.0
    longest_meeting_seconds: float = 900.0
    leave_seconds: float = 3.0
    heartbeat_seconds: float = 30.0
    # Lower bounds in real seconds: a fast simulator must not flood the API it calls.
    shortest_heartbeat: float = 1.0
    shortest_restart: float = 0.2
    bot_threads: int = 8

    def change(self, changes: dict[str, Any]) -> None:
        unknown = sorted(set(changes) - CHANGEABLE)
        if unknown:
            raise ValueError(f"cannot be changed while the simulator runs: {', '.join(unknown)}")
        check_fields(Settings, changes)
        if "version" in changes and not is_version(changes["version"]):
            raise ValueError("version must be numbers separated by dots, such as 4.3.11")
        for name, value in changes.items():
            setattr(self, name, value)

    def at_least(self, version: str) -> bool:
        return version_numbers(self.version) >= version_numbers(version)


FIXED = {
    "host", "port", "allowed_hosts", "speed", "seed", "state_file", "tokens", "servers",
    "bot_threads",
}  # fmt: skip
CHANGEABLE = {each.name for each in fields(Settings)} - FIXED


def version_numbers(version: str) -> tuple[int, ...]:
    plain = version.removeprefix("v").partition("-")[0]
    return tuple(int(part) for part in plain.split("."))


def is_version(text: str) -> bool:
    try:
        return bool(version_numbers(text))
    except ValueError:
        return False


def server_uuids(count: int) -> list[str]:
    """`simulated-server`, `simulated-server-2`, …"""
    return [DEFAULT_SERVER, *(f"{DEFAULT_SERVER}-{number}" for number in range(2, count + 1))]


def parse_tokens(texts: Iterable[str]) -> list[Token]:
    return [Token.parse(text) for text in texts] or [Token()]
