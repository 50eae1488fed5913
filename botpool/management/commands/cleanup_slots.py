from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from pool.reconciler.cleanup import clean_up


class Command(BaseCommand):
    help = "Delete applications that have a slot's name and have belonged to no slot for long."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def handle(self, *args: Any, **options: Any) -> None:
        cleanup = clean_up(dry_run=options["dry_run"])
        for finding, outcome in cleanup.lines:
            self._say("Found", str(finding))
            self._say("  why", finding.reason)
            self._say("  did", outcome)
        if cleanup.stopped:
            self._say("Stopped", cleanup.stopped)
        self._say("Done", f"{len(cleanup.lines)} applications of no slot")

    def _say(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:9}{text}")
