from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from botpool.telemetry.counters import count_history
from botpool.telemetry.retention import count_old, prune


class Command(BaseCommand):
    help = "Delete history that is older than its retention (KEEP_…_DAYS), in small batches."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show what would be deleted")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["dry_run"]:
            count_history()  # rows that are not counted yet are kept
        counts = count_old() if options["dry_run"] else prune(longest=float("inf"))
        verb = "to delete" if options["dry_run"] else "deleted"
        for name, count in counts:
            self.stdout.write(f"{name:20} {count:>9} {verb}")
