"""The database's clock, which all machines share. A host's clock may be wrong by any amount."""

from datetime import UTC, datetime

from core.sql import fetch_one


def database_now() -> datetime:
    row = fetch_one("SELECT clock_timestamp()", {})
    assert row is not None
    moment: datetime = row[0]
    return moment


def on_this_hosts_clock(moment: datetime) -> datetime:
    """Convert a moment on the database's clock to this host's clock."""
    return moment + (datetime.now(UTC) - database_now())
