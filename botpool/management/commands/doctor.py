import sys
from typing import Any

from django.core.management.base import BaseCommand

from botpool.telemetry.doctor import Diagnosis, examine
from coolify.shared import shared_coolify


class Command(BaseCommand):
    help = (
        "Check the database, migrations, worker, ticker, and Coolify's address, token, version and "
        "limits. Print advice for each fault. The exit code is 1 if there is a fault."
    )
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        faults = skipped = 0
        for diagnosis in examine(shared_coolify()):
            faults += diagnosis.healthy is False
            skipped += diagnosis.healthy is None
            self._show(diagnosis)
        if faults:
            self.stdout.write(f"\n{faults} fault{'s' if faults > 1 else ''} found.")
            sys.exit(1)
        self.stdout.write(f"\nNo faults found, {skipped} skipped." if skipped else "\nAll is well.")

    def _show(self, diagnosis: Diagnosis) -> None:
        if diagnosis.healthy is not False:
            word = "skip" if diagnosis.healthy is None else "ok"
            self.stdout.write(f"{word:6} {diagnosis.name}: {diagnosis.finding}")
            return
        self.stdout.write(self.style.ERROR(f"FAULT  {diagnosis.name}: {diagnosis.finding}"))
        self.stdout.write(f"       → {diagnosis.advice}")
