"""Times of orders that could not be read again: refused by the table, and repaired in old rows."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from servers.models import Server

pytestmark = pytest.mark.django_db

UNREADABLE = ("0001-12-31 10:00:00+00 BC", "10000-01-01 13:59:59+00", "infinity", "-infinity")


def write(column: str, moment: str) -> None:
    """As psycopg sends a time with a zone: PostgreSQL alone makes UTC of it."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE coolify_serverreading SET {column} = %s::timestamptz", [moment])


@pytest.fixture(autouse=True)
def server() -> Server:
    now = timezone.now()
    return Server.objects.create(
        uuid="a",
        order="draining",
        order_until=now + timedelta(hours=1),
        window_from=now + timedelta(hours=2),
        window_until=now + timedelta(hours=3),
    )


@pytest.mark.parametrize("column", ["order_until", "window_from", "window_until"])
@pytest.mark.parametrize("moment", UNREADABLE)
def test_the_table_refuses_a_time_that_cannot_be_read(column, moment):
    with pytest.raises(IntegrityError):
        write(column, moment)


def test_the_table_refuses_times_of_other_centuries():
    with pytest.raises(IntegrityError, match="server_times_are_between_2000_and_3000"):
        Server.objects.update(order_until=datetime(9999, 12, 31, tzinfo=UTC))


def test_the_table_takes_orders_without_an_end():
    Server.objects.update(order_until=None, window_from=None, window_until=None)


# Rows of earlier versions

CENTURIES = datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


def write_as_before(**times: str) -> None:
    drop = "ALTER TABLE coolify_serverreading DROP CONSTRAINT IF EXISTS"
    with connection.cursor() as cursor:
        cursor.execute(f"{drop} server_times_are_between_2000_and_3000")
    for column, moment in times.items():
        write(column, moment)


def migrate() -> Server:
    loader = MigrationLoader(None)
    for name in ("0006_times_of_servers", "0007_validate_times_of_servers"):
        state = loader.project_state(("coolify", name), at_end=False)
        with connection.schema_editor() as editor:
            loader.disk_migrations["coolify", name].apply(state, editor)
    return Server.objects.get()


def test_the_migration_lets_an_order_without_a_readable_end_last():
    write_as_before(order_until="10000-01-01 13:59:59+00")
    row = migrate()
    assert (row.order, row.order_until) == ("draining", None)


def test_the_migration_keeps_a_window_at_the_edges_of_the_calendar_in_force():
    write_as_before(window_from="0001-12-31 10:00:00+00 BC", window_until="10000-01-01 13:59+00")
    row = migrate()
    assert (row.window_from, row.window_until) == CENTURIES


@pytest.mark.parametrize(
    "window",
    [
        {"window_until": "infinity", "window_from": "10000-01-01 13:59+00"},
        {"window_from": "0001-12-31 10:00:00+00 BC", "window_until": "0001-01-01 00:00+00"},
    ],
)
def test_the_migration_removes_a_window_that_is_over_or_never_begins(window):
    write_as_before(**window)
    row = migrate()
    assert (row.window_from, row.window_until, row.window_by) == (None, None, "")


def test_the_migration_leaves_other_rows_alone(server):
    write_as_before()
    row = migrate()
    times = "order_until", "window_from", "window_until"
    assert [getattr(row, name) for name in times] == [getattr(server, name) for name in times]
