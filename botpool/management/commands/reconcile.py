from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from pool.reconciler.reconcile import Line, reconcile


class Command(BaseCommand):
    help = "One pass of the reconciler: what does not fit together, why, and what is done about it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        parser.add_argument(
            "--allow-many",
            action="store_true",
            help="repair even if that touches more of the held slots than a pass may by itself",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        report = reconcile(dry_run=options["dry_run"], allow_many=options["allow_many"])
        if report.skipped:
            self._say("Skipped", report.skipped)
            return
        self._say("Looked", report.looked)
        for line in report.lines:
            self._tell(line)
        if report.stopped:
            self._say("Stopped", report.stopped)
        self._say("Done", f"{len(report.lines)} findings" + (" (dry run)" * report.dry_run))

    def _tell(self, line: Line) -> None:
        finding, sighting = line.found.finding, line.found.sighting
        since = finding.last_seen_at - finding.first_seen_at
        self._say("Found", str(finding))
        self._say("  why", f"{sighting.reason} (for {since.total_seconds():.0f} s)")
        self._say("  to do", sighting.decision)
        self._say("  did", line.outcome)

    def _say(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:9}{text}")
