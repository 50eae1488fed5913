import argparse
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coolify.simulator.settings import DEFAULT_TOKEN, Settings, parse_tokens
from coolify.simulator.simulator import Simulator
from coolify.simulator.state import StateUnreadable


class Command(BaseCommand):
    help = "Runs a simulated Coolify, with simulated bots in its containers."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8089)
        parser.add_argument("--speed", type=positive, default=1.0, help="1 is Coolify's own speed")
        parser.add_argument("--seed", type=int, default=0, help="seed for what the bots do")
        parser.add_argument("--state", metavar="FILE", help="keep the state in this file")
        parser.add_argument(
            "--token",
            action="append",
            default=[],
            metavar="ID|SECRET[:ABILITY,…]",
            help=f"can be repeated (default {DEFAULT_TOKEN}, which has every ability)",
        )
        parser.add_argument(
            "--mischief",
            type=float,
            default=0.1,
            help="share of bots that crash, fail, hang, fall silent or exit early, 0 to 1",
        )
        parser.add_argument("--webhook", metavar="URL", help="send notifications to this URL")
        parser.add_argument(
            "--rate-limit", type=int, default=200, help="calls a minute; 0 for no limit"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        simulator = opened(settings_from(options))
        stop = threading.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: stop.set())
        try:
            simulator.start()
        except StateUnreadable as error:
            simulator.stop()
            raise CommandError(f"The state file cannot be read: {error}") from error
        self.stdout.write(f"Coolify simulator on {simulator.url} (API {simulator.api_url})")
        self.stdout.flush()
        stop.wait()
        simulator.stop()


def positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return value


def settings_from(options: dict[str, Any]) -> Settings:
    try:
        tokens = parse_tokens(options["token"])
    except ValueError as error:
        raise CommandError(str(error)) from error
    return Settings(
        host=options["host"],
        port=options["port"],
        speed=options["speed"],
        seed=options["seed"],
        state_file=options["state"],
        tokens=tokens,
        mischief=options["mischief"],
        webhook_url=options["webhook"],
        rate_limit=options["rate_limit"] or None,
    )


def opened(settings: Settings) -> Simulator:
    try:
        return Simulator(settings)
    except OSError as error:
        raise CommandError(
            f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        ) from error
