import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.template.defaultfilters import pluralize

from botpool.telemetry.coolify_setup import Diagnosis, set_up_notifications, webhook_address
from botpool.telemetry.doctor import examine
from coolify.shared import shared_coolify


class Command(BaseCommand):
    help = (
        "Check the database, migrations, worker, ticker, and Coolify's address, token, version and "
        "limits. Print advice for each fault. The exit code is 1 if there is a fault."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--fix",
            action="store_true",
            help="First set up Coolify's webhook notifications for its team, after asking you.",
        )
        parser.add_argument("--no-input", action="store_true", help="Do not ask before --fix.")

    def handle(self, *args: Any, **options: Any) -> None:
        faults = skipped = 0
        if options["fix"] and (options["no_input"] or self._consents()):
            self._show(set_up_notifications(shared_coolify()))
        for diagnosis in examine(shared_coolify()):
            faults += diagnosis.healthy is False
            skipped += diagnosis.healthy is None
            self._show(diagnosis)
        if faults:
            self.stdout.write(f"\n{faults} fault{pluralize(faults)} found.")
            sys.exit(1)
        self.stdout.write(f"\nNo faults found, {skipped} skipped." if skipped else "\nAll is well.")

    def _consents(self) -> bool:
        address = webhook_address().replace(settings.COOLIFY_WEBHOOK_SECRET, "…")
        self.stdout.write(
            f"Coolify will send its team's webhook notifications to {address}. That replaces the "
            "address to which they go now."
        )
        return input("Set this up? [y/N] ").strip().lower() in ("y", "yes")

    def _show(self, diagnosis: Diagnosis) -> None:
        if diagnosis.healthy is not False:
            word = "skip" if diagnosis.healthy is None else "ok"
            self.stdout.write(f"{word:6} {diagnosis.name}: {diagnosis.finding}")
            return
        self.stdout.write(self.style.ERROR(f"FAULT  {diagnosis.name}: {diagnosis.finding}"))
        self.stdout.write(f"       → {diagnosis.advice}")
