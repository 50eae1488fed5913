"""What Coolify reports about its servers, stored on their rows."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db import transaction
from django.db.models.functions import Coalesce, Now

from coolify.client.resources import Server as ReportedServer
from servers.models import Server

_FIELDS = (
    "name", "is_reachable", "is_usable", "concurrent_builds", "deployment_queue_limit", "read_at",
)  # fmt: skip


def remember_servers(servers: Iterable[ReportedServer]) -> bool:
    """Store what `Coolify.servers()` returned; True if one came within reach, or went out of it.

    A server that is missing from it keeps its old report and its `read_at`.
    """
    reported = sorted(servers, key=lambda server: server.uuid)
    rows = [
        Server(
            uuid=server.uuid,
            name=server.name,
            is_reachable=server.is_reachable,
            is_usable=server.is_usable,
            concurrent_builds=_positive(server.concurrent_builds),
            deployment_queue_limit=_positive(server.deployment_queue_limit),
            read_at=Now(),
        )
        for server in reported
    ]
    Server.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["uuid"], update_fields=_FIELDS
    )
    return note_reachability({server.uuid: is_functional(server) for server in reported}, at=None)


def is_functional(server: ReportedServer) -> bool:
    """Coolify deploys only on servers that are reachable and usable. Unknown is not "no"."""
    return server.is_reachable is not False and server.is_usable is not False


def note_reachability(reports: Mapping[str, bool], *, at: datetime | None) -> bool:
    """Record which servers Coolify can work with; True if that changed for one of them."""
    good = [uuid for uuid, is_good in reports.items() if is_good]
    bad = [uuid for uuid, is_good in reports.items() if not is_good]
    back = Server.objects.filter(uuid__in=good, unreachable_since__isnull=False)
    gone = Server.objects.filter(uuid__in=bad, unreachable_since__isnull=True)
    if not (back.exists() or gone.exists()):
        return False
    with transaction.atomic():
        # In the order in which `remember_servers` writes them.
        list(Server.objects.select_for_update().filter(uuid__in=reports).order_by("uuid"))
        changed = back.update(unreachable_since=None)
        changed += gone.update(unreachable_since=Coalesce(at, Now()))
    return bool(changed)


def add_missing_servers(uuids: Iterable[str]) -> None:
    """Make rows for servers about which nothing was reported yet."""
    known = set(Server.objects.filter(uuid__in=list(uuids)).values_list("uuid", flat=True))
    missing = [Server(uuid=uuid) for uuid in sorted(set(uuids) - known) if uuid]
    Server.objects.bulk_create(missing, ignore_conflicts=True)


def named(name: str) -> Server | None:
    """The server with this name or uuid; None if there is none, or several have that name."""
    found = Server.objects.filter(pk=name) or Server.objects.filter(name=name)[:2]
    return found[0] if len(found) == 1 else None


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None
