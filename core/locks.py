"""Advisory locks, held until the transaction ends, and limits to waiting. The names of locks are in
pool.lock_names."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from zlib import crc32

from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import LockNotAvailable


class LockIsTaken(Exception):
    """Another session held the lock for longer than the caller was willing to wait."""


# For statements that also take a lock. Pass them `lock_parameters`.
TAKE_LOCK = "pg_advisory_xact_lock(%(lock_namespace)s, %(lock_key)s)"


def lock_parameters(name: str) -> dict[str, int]:
    _refuse_outside_a_transaction(name)
    return {"lock_namespace": _NAMESPACE, "lock_key": _key(name)}


def advisory_lock(name: str) -> None:
    """Wait for the lock of this name and hold it until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {TAKE_LOCK}", lock_parameters(name))


# The wait is limited for this statement only, not for those after it. A holder that freezes loses
# the lock: the server ends its idle transaction.
_LOCK_WITHIN = """
WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS lock_timeout)
SELECT
    set_config('lock_timeout', %s, true),
    pg_advisory_xact_lock(%s, %s),
    set_config('lock_timeout', lock_timeout, true),
    set_config('idle_in_transaction_session_timeout', '5s', true)
FROM before
"""


def advisory_lock_within(patience: timedelta, name: str) -> None:
    """Like `advisory_lock`, but raise LockIsTaken after `patience`, which voids the transaction."""
    _refuse_outside_a_transaction(name)
    try:
        with connection.cursor() as cursor:
            cursor.execute(_LOCK_WITHIN, [_milliseconds(patience), _NAMESPACE, _key(name)])
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise LockIsTaken(name) from error
        raise


@contextmanager
def waiting_at_most(patience: timedelta) -> Iterator[None]:
    """Raise LockIsTaken if a statement in here waits longer than that for a lock on a row. The
    transaction goes on."""
    try:
        with transaction.atomic():
            before = _set_lock_timeout(_milliseconds(patience))
            yield
            _set_lock_timeout(before)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise LockIsTaken("a row") from error
        raise


def _set_lock_timeout(value: str) -> str:
    """Until the transaction ends, or is rolled back to a savepoint; return the value before."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS value)"
            " SELECT value, set_config('lock_timeout', %s, true) FROM before",
            [value],
        )
        return str(cursor.fetchone()[0])


def session_lock(database: BaseDatabaseWrapper, number: int) -> None:
    """Wait for a lock that lasts as long as this connection, which must not be pooled."""
    with database.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [number])


def _milliseconds(patience: timedelta) -> str:
    return f"{patience / timedelta(milliseconds=1):.0f}ms"


def _refuse_outside_a_transaction(name: str) -> None:
    if not connection.in_atomic_block:
        raise RuntimeError(f"The lock {name!r} would be released at once: open a transaction first")


_NAMESPACE = 0x626F74  # "bot": separates our locks from those of other programs in the database


def _key(name: str) -> int:
    return crc32(name.encode()) - 2**31
