"""Readiness: each check returns a reason if Botpool cannot serve."""

import logging

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from core.jobs.liveness import reasons_of_processes
from core.sql import clock

logger = logging.getLogger(__name__)


def reasons_not_to_serve() -> dict[str, str]:
    """Return the reasons by component. Without a database, the others are not checked."""
    try:
        clock()
        waiting = _waiting_migrations()
        return {"migrations": waiting} if waiting else reasons_of_processes()
    except Error as error:
        # Public endpoint: never leak hosts or users.
        logger.warning("PostgreSQL does not answer: %s", str(error).strip().splitlines()[0])
        return {"database": "PostgreSQL does not answer; see the log or run manage.py doctor"}


def _waiting_migrations() -> str:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return ""
    first, _ = plan[0]
    return f"{len(plan)} not applied, first {first.app_label}.{first.name} (run manage.py migrate)"
