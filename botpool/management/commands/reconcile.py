from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.template.defaultfilters import pluralize

from pool.reconciler.reconcile import Line, reconcile


class Command(BaseCommand):
    help = "Run one pass of the reconciler. Print its findings, their reasons and the repairs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show what would be done")
        parser.add_argument(
            "--allow-many",
            action="store_true",
            help="repair even if that affects more held slots than one pass normally may",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        report = reconcile(dry_run=options["dry_run"], allow_many=options["allow_many"])
        if report.skipped:
            self._print("Skipped", report.skipped)
            return
        self._print("Checked", report.observed)
        for line in report.lines:
            self._print_finding(line)
        if report.stopped:
            self._print("Stopped", report.stopped)
        findings = f"{len(report.lines)} finding{pluralize(report.lines)}"
        self._print("Done", f"{findings}{' (dry run)' if report.dry_run else ''}")

    def _print_finding(self, line: Line) -> None:
        finding, candidate = line.found.finding, line.found.candidate
        since = finding.last_seen_at - finding.first_seen_at
        self._print("Found", str(finding))
        self._print("  why", f"{candidate.reason} (for {since.total_seconds():.0f} s)")
        self._print("  to do", candidate.decision)
        self._print("  did", line.outcome)

    def _print(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:9}{text}")
