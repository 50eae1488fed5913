from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class BotpoolConfig(AppConfig):
    name = "botpool"
    verbose_name = "Botpool"

    def ready(self) -> None:
        connection_created.connect(limit_idle_transactions)


def limit_idle_transactions(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """A process that is frozen or cut off within a transaction would keep its locks for as long
    as its connection lives, which may be hours. Set by a statement, and not with the connection's
    options, which PgBouncer refuses; behind it all of our sessions come to have it."""
    limit = str(int(settings.IDLE_TRANSACTION_LIMIT.total_seconds() * 1000))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, false)", [limit]
        )
