"""Readiness: each check returns a reason if Botpool cannot serve."""

import logging
import time

from django.apps import apps
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from core.jobs.liveness import reasons_of_processes
from core.sql import clock, disk_is_full, is_hidden, write_obstacle

logger = logging.getLogger(__name__)


def reasons_not_to_serve() -> dict[str, str]:
    """Return the reasons by component. Without a database, the others are not checked."""
    try:
        clock()
        waiting = _waiting_migrations()
        if waiting:
            is_refused = is_hidden("django_migrations")
            return {"database": _OBSTACLES["hidden"]} if is_refused else {"migrations": waiting}
        obstacle = write_obstacle(_tables()) or _disk.obstacle()
        reasons = {"database": _OBSTACLES[obstacle]} if obstacle else {}
        return reasons | reasons_of_processes()
    except Error as error:
        # Public endpoint: never leak hosts or users.
        logger.warning("PostgreSQL does not answer: %s", str(error).strip().splitlines()[0])
        return {"database": "PostgreSQL does not answer; see the log or run manage.py doctor"}


_OBSTACLES = {
    "hidden": (
        "PostgreSQL answers, but Botpool's role does not find its tables; grant it USAGE on their "
        "schema, or name that in its search_path"
    ),
    "missing": (
        "PostgreSQL answers, but some of Botpool's tables are missing; restore them from a backup"
    ),
    "read_only": "PostgreSQL is read-only: a standby, or default_transaction_read_only is on",
    "privileges": (
        "PostgreSQL answers, but Botpool's role may not read or may not write some of its tables; "
        "grant it SELECT, INSERT, UPDATE, DELETE on all of them"
    ),
    "disk": "PostgreSQL's disk is full",
}
DISK_CHECK_INTERVAL = 10.0  # seconds: the check costs a few writes, and anyone may ask


class _Disk:
    """What the last check found, in this process."""

    is_full = False
    next_check = 0.0

    def obstacle(self) -> str:
        if time.monotonic() >= self.next_check:
            self.is_full = disk_is_full()
            self.next_check = time.monotonic() + DISK_CHECK_INTERVAL
        return "disk" if self.is_full else ""


_disk = _Disk()


def _tables() -> list[str]:
    models = apps.get_models(include_auto_created=True)
    return sorted({model._meta.db_table for model in models if model._meta.managed})


def _waiting_migrations() -> str:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return ""
    first, _ = plan[0]
    return f"{len(plan)} not applied, first {first.app_label}.{first.name} (run manage.py migrate)"
