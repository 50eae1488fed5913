"""What must be true before Botpool can serve: each check answers with a reason if it is not."""

import logging

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from core.jobs.liveness import reasons_of_processes

logger = logging.getLogger(__name__)


def reasons_not_to_serve() -> dict[str, str]:
    """The reasons by the name of the part; later parts are not asked when the database is away."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        waiting = _waiting_migrations()
        return {"migrations": waiting} if waiting else reasons_of_processes()
    except Error as error:
        # Whoever asks here may be anybody: where the server is and who we are there is not for all.
        logger.warning("PostgreSQL does not answer: %s", str(error).strip().splitlines()[0])
        return {"database": "PostgreSQL does not answer; the log and manage.py doctor say why"}


def _waiting_migrations() -> str:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return ""
    first, _ = plan[0]
    return f"{len(plan)} not applied, first {first.app_label}.{first.name} (run manage.py migrate)"
