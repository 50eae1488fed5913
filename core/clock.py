"""The database's clock, which all machines share. A host's clock may be wrong by any amount."""

import time
from datetime import UTC, datetime, timedelta
from functools import cache

from core.sql import clock as database_now

__all__ = ["database_now", "on_this_hosts_clock", "process_started_at", "uptime"]


def on_this_hosts_clock(moment: datetime) -> datetime:
    """Convert a moment on the database's clock to this host's clock."""
    return moment + (datetime.now(UTC) - database_now())


def uptime() -> float:
    """Seconds since this host started, including sleep where the system counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_STARTED = uptime()


@cache
def process_started_at() -> datetime:
    """When this process, or the one that it was forked from, read its environment. Measured once:
    each measurement differs a little."""
    return database_now() - timedelta(seconds=uptime() - _STARTED)
