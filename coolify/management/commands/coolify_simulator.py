import argparse
import signal
import socket
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coolify.simulator.settings import DEFAULT_TOKEN, Settings, parse_tokens, server_uuids
from coolify.simulator.simulator import Simulator
from coolify.simulator.state import StateUnreadable

MOST_SERVERS = 100


class Command(BaseCommand):
    help = "Runs a simulated Coolify, with simulated bots in its containers."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8089)
        parser.add_argument(
            "--listener",
            type=int,
            metavar="FD",
            help="answer at this open socket, which listens already, instead of a new one",
        )
        parser.add_argument(
            "--allowed-host",
            action="append",
            default=[],
            metavar="NAME",
            help="open the page and the control path under this name, too; can be repeated",
        )
        parser.add_argument("--speed", type=positive, default=1.0, help="1 is Coolify's own speed")
        parser.add_argument("--seed", type=int, default=0, help="seed for what the bots do")
        parser.add_argument("--servers", type=count, default=1, help="how many (default: 1)")
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
        parser.add_argument(
            "--latency",
            type=latency,
            default=(0.0, 0.0),
            metavar="MIN-MAX",
            help="real seconds that each call takes, such as 0.05-0.5",
        )
        parser.add_argument("--webhook", metavar="URL", help="send notifications to this URL")
        parser.add_argument(
            "--rate-limit", type=int, default=200, help="calls a minute; 0 for no limit"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        simulator = opened(settings_from(options), listener=options["listener"])
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


def latency(text: str) -> tuple[float, float]:
    shortest, dash, longest = text.partition("-")
    try:
        found = (float(shortest), float(longest if dash else shortest))
    except ValueError:
        found = (-1.0, -1.0)
    if not 0 <= found[0] <= found[1]:
        raise argparse.ArgumentTypeError("must be two numbers of seconds, such as 0.05-0.5")
    return found


def count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SERVERS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MOST_SERVERS}")
    return int(text)


def settings_from(options: dict[str, Any]) -> Settings:
    try:
        tokens = parse_tokens(options["token"])
    except ValueError as error:
        raise CommandError(str(error)) from error
    return Settings(
        host=options["host"],
        port=options["port"],
        allowed_hosts=options["allowed_host"],
        speed=options["speed"],
        seed=options["seed"],
        state_file=options["state"],
        tokens=tokens,
        servers=server_uuids(options["servers"]),
        mischief=options["mischief"],
        webhook_url=options["webhook"],
        rate_limit=options["rate_limit"] or None,
        shortest_call=options["latency"][0],
        longest_call=options["latency"][1],
    )


def opened(settings: Settings, *, listener: int | None) -> Simulator:
    try:
        given = None if listener is None else socket.socket(fileno=listener)
        return Simulator(settings, listener=given)
    except OSError as error:
        raise CommandError(
            f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        ) from error
