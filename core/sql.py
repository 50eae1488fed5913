"""Helpers for hand-written SQL, and the few statements about the session and the server."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from django.db import (
    Error,
    InterfaceError,
    OperationalError,
    connection,
    models,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

CANCEL_SECONDS = 1.0
# A statement may have 65,535 values at most, and PostgreSQL refuses one with more.
ROWS_AT_ONCE = 1_000
M = TypeVar("M", bound=models.Model)


def fetch_one(sql: str, params: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()


def fetch_all(sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def columns(model: type[models.Model]) -> str:
    """Return the model's columns in the order that `instance` expects."""
    return ", ".join(str(field.column) for field in model._meta.concrete_fields)


def instance(model: type[M], row: tuple[Any, ...]) -> M:
    fields = model._meta.concrete_fields
    values = [_converted(field, value) for field, value in zip(fields, row, strict=True)]
    return model.from_db("default", [field.attname for field in fields], values)


def _converted(field: "models.Field[Any, Any]", value: Any) -> Any:
    """Convert the value as the ORM would: JSON arrives as text."""
    convert = getattr(field, "from_db_value", None)
    return convert(value, None, connection) if convert else value


class CountOf(models.Subquery):
    """How many rows a queryset has, within another query."""

    template = "(SELECT count(*) FROM (%(subquery)s) AS counted)"
    output_field = models.IntegerField()


# --- The session and the server: the ORM has no words for these ---------------------------------


def leave_interrupted_statement() -> None:
    """Call this after an exception that a signal raised. In the middle of a statement, the server
    goes on with it and the connection takes no other: cancel it and use a new connection."""
    raw = connection.connection
    if raw is not None and raw.info.transaction_status == TransactionStatus.ACTIVE:
        with suppress(psycopg.Error):
            raw.cancel_safe(timeout=CANCEL_SECONDS)
        connection.close()


def clock() -> datetime:
    """The database's clock now, not that of the transaction's begin."""
    row = fetch_one("SELECT clock_timestamp()", {})
    assert row is not None
    moment: datetime = row[0]
    return moment


def notify(channel: str, payloads: Iterable[str] = ("",)) -> None:
    """Send these to all who listen, once the transaction commits."""
    sql = "SELECT pg_notify(%(channel)s, payload) FROM unnest(%(payloads)s::text[]) AS payload"
    fetch_all(sql, {"channel": channel, "payloads": list(payloads)})


def listen(database: BaseDatabaseWrapper, channel: str) -> None:
    with database.cursor() as cursor:
        cursor.execute(f"LISTEN {channel}")


def set_parameter(
    database: BaseDatabaseWrapper, name: str, value: str, *, only_here: bool = False
) -> None:
    """Set a parameter for the session, or `only_here`, in this transaction."""
    with database.cursor() as cursor:
        cursor.execute("SELECT set_config(%s, %s, %s)", [name, value, only_here])


def is_direct(database: BaseDatabaseWrapper) -> bool:
    """Whether the connection goes to PostgreSQL itself: a pooler in between shows its own id."""
    with database.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return bool(cursor.fetchone()[0] == database.connection.info.backend_pid)


def server_version() -> int:
    """Such as 180004 for 18.4."""
    row = fetch_one("SHOW server_version_num", {})
    assert row is not None
    return int(row[0])


def counted(sql: str) -> str:
    """The statement that counts the rows of this one."""
    return f"SELECT count(*) FROM ({sql}) AS counted"  # noqa: S608 (the caller's own)


def write_obstacle(tables: Sequence[str]) -> str:
    """Why rows of these tables could not be read and written: "missing", "read_only", "privileges"
    or ""."""
    # Several rights in one call would ask for any of them.
    sql = """
        SELECT bool_or(id IS NULL),
            pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
            bool_and(
                has_table_privilege(id, 'SELECT') AND has_table_privilege(id, 'INSERT')
                AND has_table_privilege(id, 'UPDATE') AND has_table_privilege(id, 'DELETE')
            )
        FROM unnest(%(tables)s::text[]) AS name, to_regclass(quote_ident(name)) AS id
    """
    found = fetch_one(sql, {"tables": list(tables)})
    assert found is not None
    is_missing, is_read_only, may_write = found
    if is_missing:
        return "missing"
    return "read_only" if is_read_only else "" if may_write else "privileges"


def is_hidden(table: str) -> bool:
    """Whether there is such a table in a schema in which our role finds none."""
    sql = """
        SELECT to_regclass(quote_ident(%(table)s)) IS NULL
            AND EXISTS (SELECT FROM pg_class WHERE relname = %(table)s AND relkind = 'r')
    """
    row = fetch_one(sql, {"table": table})
    return row is not None and bool(row[0])


def disk_is_full() -> bool:
    """Tries to add a file: rows may still fit into the space that earlier rows left."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE disk_probe ON COMMIT DROP AS SELECT 1 AS one")
            transaction.set_rollback(True)
    except Error as error:
        if sqlstate(error) == INSUFFICIENT_PRIVILEGE:  # no temporary tables: unknown
            return False
        if sqlstate(error) == DISK_FULL:
            return True
        raise
    return False


DISK_FULL = "53100"
READ_ONLY = "25006"
INSUFFICIENT_PRIVILEGE = "42501"
# Not migrated yet, or in a schema that our role may not use.
UNDEFINED_TABLE, UNDEFINED_COLUMN = "42P01", "42703"
# The process was frozen in a transaction, which the server has ended.
IDLE_TRANSACTION_ENDED, TRANSACTION_ENDED = "25P03", "25P04"
_NOT_OUR_FAULT = (
    READ_ONLY,
    INSUFFICIENT_PRIVILEGE,
    UNDEFINED_TABLE,
    UNDEFINED_COLUMN,
    IDLE_TRANSACTION_ENDED,
    TRANSACTION_ENDED,
)
# Perhaps through what our own statements do.
DEADLOCK, SERIALIZATION_FAILURE = "40P01", "40001"
LOCK_NOT_AVAILABLE, STATEMENT_CANCELLED = "55P03", "57014"
_PERHAPS_OUR_FAULT = (
    DEADLOCK,
    SERIALIZATION_FAILURE,
    LOCK_NOT_AVAILABLE,
    STATEMENT_CANCELLED,
    UNDEFINED_TABLE,
    UNDEFINED_COLUMN,
)


def sqlstate(error: BaseException) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""


def is_unavailable(error: BaseException | None) -> bool:
    """Whether the database could not be reached, read or written, through no fault of ours."""
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return isinstance(error, Error) and sqlstate(error) in _NOT_OUR_FAULT


def is_outage(error: BaseException | None) -> bool:
    """Whether it happened whatever statement was sent: its place in the code explains nothing."""
    if error is None or not is_unavailable(error):
        return False
    return sqlstate(error) not in _PERHAPS_OUR_FAULT


def estimated_rows(table: str) -> int:
    """By the server's own statistics: counting would read the whole table."""
    sql = "SELECT reltuples::bigint FROM pg_class WHERE oid = %(table)s::regclass"
    row = fetch_one(sql, {"table": table})
    return int(row[0]) if row else 0
