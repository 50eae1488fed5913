"""How many deployments each server may run at once, from the settings or from Coolify."""

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
    """Store what `Coolify.servers()` returned.

    A server that is missing from it keeps its old reading, and `age` shows how old that is.
    """
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
    """Return each server's limit: MAX_CONCURRENT_DEPLOYMENTS if set, else what Coolify last
    reported, else Coolify's default."""
    uuids = list(server_uuids)
    if settings.MAX_CONCURRENT_DEPLOYMENTS:
        return dict.fromkeys(uuids, settings.MAX_CONCURRENT_DEPLOYMENTS)
    return _reported("concurrent_builds", uuids, default=DEFAULT_CONCURRENT_BUILDS)


def queue_limits(server_uuids: Iterable[str]) -> dict[str, int]:
    """Return how many deployments may wait on each server before Coolify loses starts."""
    return _reported("deployment_queue_limit", server_uuids, default=DEFAULT_QUEUE_LIMIT)


def _reported(field: str, server_uuids: Iterable[str], *, default: int) -> dict[str, int]:
    uuids = list(server_uuids)
    reported = dict(ServerReading.objects.filter(uuid__in=uuids).values_list("uuid", field))
    return {uuid: reported.get(uuid) or default for uuid in uuids}


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None
