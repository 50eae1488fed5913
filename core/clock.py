"""The database's clock, which all machines share. A host's clock may be wrong by any amount."""

from datetime import UTC, datetime

from core.sql import clock as database_now

__all__ = ["database_now", "on_this_hosts_clock"]


def on_this_hosts_clock(moment: datetime) -> datetime:
    """Convert a moment on the database's clock to this host's clock."""
    return moment + (datetime.now(UTC) - database_now())
