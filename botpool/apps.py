from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from core.sql import set_parameter


class BotpoolConfig(AppConfig):
    name = "botpool"
    verbose_name = "Botpool"

    def ready(self) -> None:
        connection_created.connect(limit_idle_transactions)


def limit_idle_transactions(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Make PostgreSQL end a transaction that has been idle for too long.

    A process that freezes or is cut off inside a transaction would otherwise keep its locks for
    as long as its connection lives, possibly hours.
    """
    # A statement, because PgBouncer rejects connection options. Behind PgBouncer the setting stays
    # with the server connections, which is fine: all of them are ours.
    limit = str(int(settings.IDLE_TRANSACTION_LIMIT.total_seconds() * 1000))
    set_parameter(connection, "idle_in_transaction_session_timeout", limit)
