"""The database's clock, the one that all machines share. Hosts may be wrong by any amount."""

from datetime import UTC, datetime

from core.sql import fetch_one


def database_now() -> datetime:
    row = fetch_one("SELECT clock_timestamp()", {})
    assert row is not None
    moment: datetime = row[0]
    return moment


def on_this_hosts_clock(moment: datetime) -> datetime:
    """When that moment of the database's was by the clock of this host."""
    return moment + (datetime.now(UTC) - database_now())
