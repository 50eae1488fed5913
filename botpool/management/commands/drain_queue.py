from typing import Any

from django.core.management.base import BaseCommand

from bots.models import Bot
from bots.status import Platform
from pool.sweep import sweep_queue
from pool.waiting.reasons import why_each_waits
from queues.models import QueueEntry

SHOWN = 10


class Command(BaseCommand):
    help = "Make one pass over the queue: fail bots that waited too long, assign free slots."

    def handle(self, **options: Any) -> None:
        self._print("Found", f"{QueueEntry.objects.count()} waiting")
        swept = sweep_queue()
        failed = Bot.objects.filter(pk__in=swept.expired).order_by("pk")
        for bot in failed.iterator():
            self._print("Failed", f"{bot}: {bot.failure_reason}")
        for slot in swept.given:
            self._print("Given", f"{slot.name} to Bot #{slot.assigned_bot_id}")
        for platform in Platform.values:
            self._print_waiting(platform)
        self._print("Done", f"{len(swept.given)} got a slot, {len(swept.expired)} timed out")

    def _print_waiting(self, platform: str) -> None:
        waiting = QueueEntry.objects.filter(platform=platform).count()
        for bot_id, reasons in why_each_waits(platform, limit=SHOWN).items():
            self._print("Waits", f"Bot #{bot_id} for {platform}: {' '.join(reasons)}")
        if waiting > SHOWN:
            self._print("Waits", f"{waiting - SHOWN} more for {platform}")

    def _print(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:8}{text}")
