"""A limit for each statement of a request, so that a database that hangs does not keep its thread.

This process keeps the limit itself. PostgreSQL's statement_timeout would not do: a server that is
frozen does not keep it, and behind PgBouncer it would stay with sessions that workers use, too.
"""

from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import Connection, Error, OperationalError
from psycopg.abc import PQGen
from psycopg.errors import QueryCanceled, _WaitTimeout

T = TypeVar("T")

CANCEL_SECONDS = 1.0  # to tell the server, and again for its answer
WAIT_INTERVAL = 0.1  # psycopg's default

_limit: ContextVar[timedelta | None] = ContextVar("statement_limit", default=None)


def limit_statements(limit: timedelta | None) -> None:
    """Applies to this thread. None: no limit, as in workers, the ticker and commands."""
    _limit.set(limit)


def keep_limit(database: BaseDatabaseWrapper) -> None:
    """On this new connection: Django cannot be told to open one of another class."""
    database.connection.__class__ = LimitedConnection


class LimitedConnection(Connection[Any]):
    """All that waits for the server comes here: statements, commits and Django's health checks."""

    def wait(
        self, gen: PQGen[T], interval: float = WAIT_INTERVAL, timeout: float | None = None
    ) -> T:
        limit = _limit.get()
        if limit is None or timeout is not None:  # it has its own, such as for NOTIFY
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, limit.total_seconds())
        except _WaitTimeout:
            return self._cancel(gen, limit)

    def _cancel(self, gen: PQGen[T], limit: timedelta) -> T:
        """If the server does not answer even then, the connection is of no more use."""
        seconds = f"{limit.total_seconds():g} s"
        with suppress(Error):
            self.cancel_safe(timeout=CANCEL_SECONDS)
        try:
            return super().wait(gen, WAIT_INTERVAL, CANCEL_SECONDS)
        except QueryCanceled:  # its own words are "due to user request"
            raise QueryCanceled(f"a statement was cancelled after {seconds}") from None
        except _WaitTimeout:
            self.close()
            raise OperationalError(f"no answer to a statement within {seconds}") from None
