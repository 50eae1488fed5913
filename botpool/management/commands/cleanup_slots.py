from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.template.defaultfilters import pluralize

from pool.reconciler.cleanup import cleanup_orphaned_slots


class Command(BaseCommand):
    help = "Delete applications that are named like a slot but have had none for a long time."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show what would be done")

    def handle(self, *args: Any, **options: Any) -> None:
        cleanup = cleanup_orphaned_slots(dry_run=options["dry_run"])
        for finding, outcome in cleanup.lines:
            self._print("Found", str(finding))
            self._print("  why", finding.reason)
            self._print("  did", outcome)
        if cleanup.stopped:
            self._print("Stopped", cleanup.stopped)
        self._print("Done", f"{len(cleanup.lines)} orphan{pluralize(cleanup.lines)}")

    def _print(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:9}{text}")
