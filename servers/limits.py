"""How many deployments each server may run at once, from the settings or from Coolify."""

from collections.abc import Iterable

from django.conf import settings

from servers.models import Server

# Coolify's own defaults.
DEFAULT_CONCURRENT_BUILDS = 2
DEFAULT_QUEUE_LIMIT = 25


def concurrent_deployments(server_uuids: Iterable[str]) -> dict[str, int]:
    """Return each server's limit: MAX_CONCURRENT_DEPLOYMENTS if set, else what Coolify last
    reported, else Coolify's default."""
    uuids = list(server_uuids)
    if settings.MAX_CONCURRENT_DEPLOYMENTS:
        return dict.fromkeys(uuids, settings.MAX_CONCURRENT_DEPLOYMENTS)
    return _reported("concurrent_builds", uuids, default=DEFAULT_CONCURRENT_BUILDS)


def build_places(server: Server | None) -> int:
    """The same for one server; None if nothing is known about it."""
    reported = server.concurrent_builds if server is not None else None
    return settings.MAX_CONCURRENT_DEPLOYMENTS or reported or DEFAULT_CONCURRENT_BUILDS


def queue_limits(server_uuids: Iterable[str]) -> dict[str, int]:
    """Return how many deployments may wait on each server before Coolify loses starts."""
    return _reported("deployment_queue_limit", server_uuids, default=DEFAULT_QUEUE_LIMIT)


def _reported(field: str, server_uuids: Iterable[str], *, default: int) -> dict[str, int]:
    uuids = list(server_uuids)
    reported = dict(Server.objects.filter(uuid__in=uuids).values_list("uuid", field))
    return {uuid: reported.get(uuid) or default for uuid in uuids}
