"""The verdict on a server's health. Pure: reads no rows, makes no calls."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models


class ServerState(models.TextChoices):
    HEALTHY = "healthy", "Healthy"
    DEGRADED = "degraded", "Degraded"
    UNREACHABLE = "unreachable", "Unreachable"
    CORDONED = "cordoned", "Cordoned"
    DRAINING = "draining", "Draining"
    REMOVED = "removed", "Removed"


_S = ServerState

# Servers in these states get bots: degraded ones only if no healthy one can.
IN_SERVICE = (_S.HEALTHY, _S.DEGRADED)
# The slots of these servers move elsewhere, each when its meeting is over.
LEAVING = (_S.DRAINING, _S.REMOVED)

# Fewer failed or slow starts say nothing about a server.
FEWEST_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known about a server. `order` is what an operator, or a maintenance window, asks
    for: cordoned, draining or empty."""

    is_wanted: bool = True
    unreachable_since: datetime | None = None
    unreachable_why: str = ""
    order: str = ""
    order_reason: str = ""
    # Of the last minutes:
    starts: int = 0
    failed_starts: int = 0
    start_time: timedelta | None = None  # the median of starts without a pull
    slow_after: timedelta = timedelta(minutes=2)


@dataclass(frozen=True)
class Health:
    state: ServerState
    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)


def judge_server(facts: Facts) -> Health:
    """The first that applies. An unreachable server that also drains is unreachable: its meetings
    go on, and its state says why the drain does not."""
    if not facts.is_wanted:
        return Health(_S.REMOVED, "It is no longer in COOLIFY_SERVER_UUID")
    if facts.unreachable_since is not None:
        since = {"unreachableSince": facts.unreachable_since.isoformat()}
        return Health(_S.UNREACHABLE, facts.unreachable_why or "Coolify cannot reach it", since)
    if facts.order:
        return Health(_S(facts.order), facts.order_reason)
    return _judge_starts(facts)


def _judge_starts(facts: Facts) -> Health:
    evidence = {"starts": facts.starts, "failedStarts": facts.failed_starts}
    if facts.failed_starts >= FEWEST_STARTS and 2 * facts.failed_starts >= facts.starts:
        words = f"{facts.failed_starts} of the last {facts.starts} starts failed"
        return Health(_S.DEGRADED, words, evidence)
    if facts.start_time is not None and facts.start_time > facts.slow_after:
        seconds = round(facts.start_time.total_seconds())
        words = f"Starts take {seconds} s although the image is there"
        return Health(_S.DEGRADED, words, {**evidence, "startSeconds": seconds})
    return Health(_S.HEALTHY, "Coolify reaches it, and starts succeed", evidence)
