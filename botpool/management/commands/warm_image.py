import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from botpool.management.actor import command_actor
from pool.servers.orders import OrderRefused, find_server, warm_image
from pool.servers.states import our_servers
from servers.models import Server
from slots.images import Prepull, PrepullStatus

PAUSE = 1.0
WORKER_PATIENCE = 15.0


class Command(BaseCommand):
    help = (
        "Pull an image on our servers before a bot needs it: one server at a time, and only where "
        "no bot needs the build place. Workers do it; this command shows how far they are."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("image", metavar="IMAGE", help="such as registry.example/bot:1.4")
        parser.add_argument("--server", metavar="NAME", help="on this server only (name or uuid)")
        parser.add_argument("--reason", default="by command", help="shown on the page")
        parser.add_argument("--no-wait", action="store_true", help="request it, and return at once")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            prepulls = self._ask(options["image"], options["server"], reason=options["reason"])
        except OrderRefused as error:
            raise CommandError(f"{error}. Nothing was changed.") from None
        if options["no_wait"]:
            self.stdout.write("Requested. Follow it on the page /servers/.")
            return
        try:
            self._follow(prepulls)
        except KeyboardInterrupt:
            self.stdout.write("It continues without this command. Follow it on the page /servers/.")

    def _ask(self, image: str, name: str | None, *, reason: str) -> list[Prepull]:
        actor = command_actor()
        return [
            warm_image(server, image=image, reason=reason, actor=actor) for server in _servers(name)
        ]

    def _follow(self, prepulls: Sequence[Prepull]) -> None:
        names = dict(Server.objects.values_list("uuid", "name"))
        shown: dict[int, str] = {}
        began = time.monotonic()
        while True:
            current = Prepull.objects.filter(pk__in=[each.pk for each in prepulls]).order_by("pk")
            for each in (found := list(current)):
                where = names.get(each.server_uuid) or each.server_uuid
                line = f"{where}: {each.get_status_display().lower()}. {each.detail}".rstrip()
                if shown.get(each.pk) != line:
                    shown[each.pk] = line
                    over = sum(not other.is_open for other in found)
                    self.stdout.write(f"[{over}/{len(found)}] {line}")
            if not any(each.is_open for each in found):
                return _judge(found)
            if time.monotonic() - began > WORKER_PATIENCE and _is_untouched(found):
                raise CommandError("No worker has begun: is one running? The request stays open.")
            time.sleep(PAUSE)


def _servers(name: str | None) -> list[Server]:
    if name:
        return [find_server(name)]
    ours = [each for each in our_servers() if each.uuid in settings.COOLIFY_SERVER_UUIDS]
    if not ours:
        raise OrderRefused("No server is set in COOLIFY_SERVER_UUID")
    return ours


def _is_untouched(prepulls: Sequence[Prepull]) -> bool:
    return all(each.status == PrepullStatus.WAITING and not each.detail for each in prepulls)


def _judge(prepulls: Sequence[Prepull]) -> None:
    bad = [each for each in prepulls if each.status != PrepullStatus.DONE]
    if bad:
        raise CommandError(f"{len(bad)} of {len(prepulls)} servers do not have the image.")
