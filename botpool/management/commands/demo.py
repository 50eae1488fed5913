import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from botpool.demo import DemoRefused, Sender, demo_sender
from bots.status import Platform

BAR = 30
RETRY_FOR = 30.0


class Command(BaseCommand):
    help = (
        "Send demo bots through the API of a running Botpool (`manage.py up`) to see the pool at "
        "work. Requires the simulated Coolify."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--bots",
            type=int,
            default=20,
            help="number of bots; 0 sends until stopped (default: 20)",
        )
        parser.add_argument(
            "--per-minute", type=float, default=12.0, help="bots per minute (default: 12)"
        )
        parser.add_argument("--platform", choices=Platform.values, help="default: all platforms")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.COOLIFY_SIMULATED:
            raise CommandError(
                "Demo bots join no real meetings and run on the simulated Coolify only, but "
                "COOLIFY_API_URL names a real one. Unset it to send demo bots."
            )
        if options["bots"] < 0 or not 0 < options["per_minute"] <= 6000:
            raise CommandError("--bots must be 0 or more, --per-minute above 0 and up to 6000.")
        try:
            self._send(demo_sender(), **{k: options[k] for k in ("bots", "per_minute", "platform")})
        except KeyboardInterrupt:
            self.stdout.write("")

    def _send(self, sender: Sender, *, bots: int, per_minute: float, platform: str | None) -> None:
        sent, pause = 0, 60.0 / per_minute
        while not bots or sent < bots:
            bot = self._send_one(sender, platform)
            sent += 1
            self._show(sent, bots, bot)
            if not bots or sent < bots:
                time.sleep(pause)
        self.stdout.write(f"\n{sent} demo bots sent: watch them at {settings.PUBLIC_URL}/bots/")

    def _send_one(self, sender: Sender, platform: str | None) -> dict[str, Any]:
        """Retry for a while, because Botpool may still be starting."""
        deadline = time.monotonic() + RETRY_FOR
        while True:
            try:
                return sender.send(platform)
            except DemoRefused as error:
                if time.monotonic() > deadline:
                    raise CommandError(str(error)) from None
                time.sleep(1)

    def _show(self, sent: int, bots: int, bot: dict[str, Any]) -> None:
        where = bot["slotName"] or "the queue"
        text = f"bot #{bot['id']} ({bot['platform']}) → {where}"
        if not bots:
            self.stdout.write(text)
            return
        done = BAR * sent // bots
        bar = f"[{'#' * done}{'.' * (BAR - done)}] {sent}/{bots}  {text}"
        if self.stdout.isatty():
            self.stdout.write(f"\r\x1b[K{bar}", ending="")
            self.stdout.flush()
        else:
            self.stdout.write(bar)
