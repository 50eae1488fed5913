from contextlib import ExitStack
from typing import Any

from django.core.management.commands import migrate
from django.db import transaction
from django.db.migrations import Migration


class Command(migrate.Command):
    """Django's command, but each migration and its record are committed together.

    Django records a migration with deferred SQL after its commit. A process that was killed in
    between left tables that the next `migrate` met again.
    """

    def handle(self, *args: Any, **options: Any) -> None:
        self.database = options["database"]
        with ExitStack() as self.migration:
            super().handle(*args, **options)

    def migration_progress_callback(
        self, action: str, migration: Migration | None = None, fake: bool = False
    ) -> None:
        super().migration_progress_callback(action, migration, fake)
        if migration and migration.atomic and action in ("apply_start", "unapply_start"):
            self.migration.enter_context(transaction.atomic(self.database))
        elif action in ("apply_success", "unapply_success"):
            self.migration.close()
