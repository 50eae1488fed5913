from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from botpool import request_limits
from core.sql import is_direct, set_parameter
from core.statement_limit import keep_limit

PREPARED_AFTER = 3  # executions; a statement that is run once is not worth it
MOST_PREPARED = 300  # on each connection


class BotpoolConfig(AppConfig):
    name = "botpool"
    verbose_name = "Botpool"

    def ready(self) -> None:
        connection_created.connect(keep_statement_limit)  # first: the others run statements
        connection_created.connect(limit_idle_transactions)
        connection_created.connect(prepare_statements)
        request_started.connect(request_limits.begin)
        request_finished.connect(request_limits.end)


def keep_statement_limit(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """It is set in a request only, so workers, the ticker and migrations have none."""
    keep_limit(connection)


def limit_idle_transactions(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Make PostgreSQL end a transaction that has been idle for too long.

    A process that freezes or is cut off inside a transaction would otherwise keep its locks for
    as long as its connection lives, possibly hours.
    """
    # A statement, because PgBouncer rejects connection options. Behind PgBouncer the setting stays
    # with the server connections, which is fine: all of them are ours.
    limit = str(int(settings.IDLE_TRANSACTION_LIMIT.total_seconds() * 1000))
    set_parameter(connection, "idle_in_transaction_session_timeout", limit)


def prepare_statements(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Have PostgreSQL parse and plan a repeated statement only once.

    Not behind PgBouncer, where the next transaction may have a different session. A plan made for
    a small table ends with its connection: after CONN_MAX_AGE, except in the ticker, whose tables
    stay small.
    """
    if is_direct(connection):
        connection.connection.prepare_threshold = PREPARED_AFTER
        connection.connection.prepared_max = MOST_PREPARED
