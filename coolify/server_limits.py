"""How many deployments may run at once on each server, as set here or as Coolify says."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.utils import timezone

from coolify.client.resources import Server
from coolify.models import ServerReading

# Coolify's own defaults.
DEFAULT_CONCURRENT_BUILDS = 2
DEFAULT_QUEUE_LIMIT = 25


def remember_servers(servers: Iterable[Server]) -> None:
    """Keeps what `Coolify.servers()` has just told. One that it did not name keeps its old reading:
    its age shows that nothing was heard of it."""
    now = timezone.now()
    readings = [
        ServerReading(
            uuid=server.uuid,
            name=server.name,
            is_reachable=server.is_reachable,
            is_usable=server.is_usable,
            concurrent_builds=_positive(server.concurrent_builds),
            deployment_queue_limit=_positive(server.deployment_queue_limit),
            read_at=now,
        )
        for server in sorted(servers, key=lambda server: server.uuid)
    ]
    ServerReading.objects.bulk_create(
        readings,
        update_conflicts=True,
        unique_fields=["uuid"],
        update_fields=[
            "name",
            "is_reachable",
            "is_usable",
            "concurrent_builds",
            "deployment_queue_limit",
            "read_at",
        ],
    )


def concurrent_deployments(server_uuids: Iterable[str]) -> dict[str, int]:
    """The limit of each of these servers: MAX_CONCURRENT_DEPLOYMENTS where it is set, else what
    Coolify last said, else its default."""
    uuids = list(server_uuids)
    if settings.MAX_CONCURRENT_DEPLOYMENTS:
        return dict.fromkeys(uuids, settings.MAX_CONCURRENT_DEPLOYMENTS)
    return _as_coolify_says("concurrent_builds", uuids, default=DEFAULT_CONCURRENT_BUILDS)


def queue_limits(server_uuids: Iterable[str]) -> dict[str, int]:
    """How many deployments may wait on each of these servers before Coolify loses starts."""
    return _as_coolify_says("deployment_queue_limit", server_uuids, default=DEFAULT_QUEUE_LIMIT)


def _as_coolify_says(field: str, server_uuids: Iterable[str], *, default: int) -> dict[str, int]:
    uuids = list(server_uuids)
    said = dict(ServerReading.objects.filter(uuid__in=uuids).values_list("uuid", field))
    return {uuid: said.get(uuid) or default for uuid in uuids}


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None
