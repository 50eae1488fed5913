from typing import Any

from django.core.management.base import BaseCommand

from bots.models import Bot
from bots.status import Platform
from pool.sweep import sweep_queue
from pool.waiting.reasons import why_each_waits
from queues.models import QueueEntry

SHOWN = 10


class Command(BaseCommand):
    help = "One pass over the queue: fails who has waited too long, gives free slots in order."

    def handle(self, **options: Any) -> None:
        self._say("Found", f"{QueueEntry.objects.count()} waiting")
        swept = sweep_queue()
        failed = Bot.objects.filter(pk__in=swept.expired).order_by("pk")
        for bot in failed.iterator():
            self._say("Failed", f"{bot}: {bot.failure_reason}")
        for slot in swept.given:
            self._say("Given", f"{slot.name} to Bot #{slot.assigned_bot_id}: its turn")
        for platform in Platform.values:
            self._tell_who_still_waits(platform)
        self._say("Done", f"{len(swept.given)} got a slot, {len(swept.expired)} gave up")

    def _tell_who_still_waits(self, platform: str) -> None:
        waiting = QueueEntry.objects.filter(platform=platform).count()
        for bot_id, reasons in why_each_waits(platform, limit=SHOWN).items():
            self._say("Waits", f"Bot #{bot_id} for {platform}: {' '.join(reasons)}")
        if waiting > SHOWN:
            self._say("Waits", f"{waiting - SHOWN} more for {platform}")

    def _say(self, what: str, text: str) -> None:
        self.stdout.write(f"{what:8}{text}")
