"""The simulator's clock: real timestamps, scaled durations."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """Divides Coolify's durations by `speed`; timestamps are those of the real clock."""

    speed: float = 1.0

    def now(self) -> float:
        return time.time()

    def real_seconds(self, seconds: float) -> float:
        return seconds / self.speed

    def after(self, seconds: float, *, at_least: float = 0.0) -> float:
        return self.now() + max(self.real_seconds(seconds), at_least)


def timestamp(moment: float | None) -> str | None:
    """As in Coolify, whose columns hold whole seconds."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def docker_time(moment: float) -> str:
    """As `docker logs --timestamps` writes it."""
    at = datetime.fromtimestamp(moment, tz=UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
