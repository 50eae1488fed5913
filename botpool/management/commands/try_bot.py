import shlex
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from botpool.demo import DemoRefused, demo_sender
from bots.models import Bot
from bots.moves import Outcome
from bots.status import TERMINAL, BotStatus, Platform
from pool.controller.start import container_environment
from pool.lifecycle import end_bot
from slots.models import Slot
from slots.status import SlotStatus

PAUSE = 0.5
EXAMPLE = Path("examples", "bot.py")
# The simulator starts the container and leaves its bot to you.
CONFIG = {"simulate": {"plan": "external"}, "meetingSeconds": 60}


class Command(BaseCommand):
    help = (
        "Try a bot of your own: asks a running Botpool (`manage.py up`) for a bot, prints the "
        "environment of its container, and follows it. Requires the simulated Coolify. Ctrl-C "
        "cancels the bot."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--platform", choices=Platform.values, default="google-meet")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.COOLIFY_SIMULATED:
            raise CommandError(
                "Bots are tried on the simulated Coolify only, but COOLIFY_API_URL names a real "
                "one. Unset it, and run `make run` in another terminal."
            )
        bot = self._ask(options["platform"])
        self.stdout.write(f"{bot} is requested: see {settings.PUBLIC_URL}/bots/{bot.pk}/")
        try:
            self._follow(bot)
        except KeyboardInterrupt:
            end_bot(bot, Outcome(BotStatus.CANCELLED, "Cancelled in the terminal", "try_bot"))
            self.stdout.write(f"\n{bot} is cancelled: its next call is told to leave.")

    def _ask(self, platform: str) -> Bot:
        fields = {"botDisplayName": "My bot", "priority": 0, "config": CONFIG}
        try:
            sent = demo_sender().send(platform, **fields)
        except DemoRefused as error:
            raise CommandError(f"{error}. `make run` starts Botpool.") from None
        return Bot.objects.get(pk=sent["id"])

    def _follow(self, bot: Bot) -> None:
        """Until the bot ends. The environment is printed once, as soon as the container runs."""
        shown, explained = 0, False
        while True:
            bot.refresh_from_db()
            slot = _running_slot(bot)
            for event in bot.events.filter(pk__gt=shown).order_by("pk"):
                at = f"{event.at.astimezone():%H:%M:%S}"
                self.stdout.write(f"{at}  {event.to_status}: {event.reason}")
                shown = event.pk
            if slot is not None and not explained:
                self._explain(slot, bot)
                explained = True
            if bot.status in TERMINAL:
                return
            self.stdout.flush()
            pause()

    def _explain(self, slot: Slot, bot: Bot) -> None:
        variables = container_environment(slot, bot).items()
        exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables)
        seconds = settings.HEARTBEAT_TIMEOUT.total_seconds()
        self.stdout.write(
            f"\nThe container in {slot.name} runs, and its bot is yours to start within "
            f"{seconds:g} s. In another terminal:\n\n{exports}\npython3 {EXAMPLE}\n\n"
            "Ctrl-C here cancels the bot: then it has to leave.\n"
        )


def pause() -> None:
    time.sleep(PAUSE)


def _running_slot(bot: Bot) -> Slot | None:
    return Slot.objects.filter(assigned_bot=bot, status=SlotStatus.BUSY).first()
