from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from botpool.management.actor import command_actor
from pool.servers.orders import OrderRefused, drain_server, find_server, return_server
from pool.servers.overview import overview_of
from servers.models import Server


class Command(BaseCommand):
    help = "Take a server out of service gently: its slots leave as their meetings end."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the server's name or uuid in Coolify")
        parser.add_argument(
            "--until", metavar="TIME", help="when it returns, such as 2026-11-20T06:00Z"
        )
        parser.add_argument("--undo", action="store_true", help="return it to service")
        parser.add_argument("--reason", default="by command", help="shown on the page")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["undo"] and options["until"]:
            raise CommandError("--undo and --until exclude each other")
        actor = command_actor()
        try:
            server = find_server(options["name"])
            if options["undo"]:
                self._return(server, reason=options["reason"], actor=actor)
            else:
                until = _moment(options["until"])
                drain_server(server, reason=options["reason"], actor=actor, until=until)
                self._tell(server)
        except OrderRefused as error:
            raise CommandError(f"{error}. Nothing was changed.") from None

    def _return(self, server: Server, *, reason: str, actor: str) -> None:
        if return_server(server, reason=reason, actor=actor):
            self.stdout.write(f"{server} is in service again: {server.get_state_display()}")
        else:
            self.stdout.write(f"{server} was not drained or cordoned: nothing to undo")

    def _tell(self, server: Server) -> None:
        overview = overview_of(server)
        progress = overview.progress if overview else "It has no slots."
        until = f" until {server.order_until:%Y-%m-%d %H:%M} UTC" if server.order_until else ""
        self.stdout.write(f"{server} drains{until}. {progress} Follow it on the page /servers/.")


def _moment(given: str | None) -> datetime | None:
    if not given:
        return None
    try:
        found = parse_datetime(given)
    except ValueError:
        found = None
    if found is None:
        raise CommandError(f"--until {given!r} is not a time such as 2026-11-20T06:00Z")
    return found if timezone.is_aware(found) else timezone.make_aware(found)
