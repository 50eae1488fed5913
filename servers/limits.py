"""How many deployments each server may run at once, from the settings or from Coolify."""

from collections.abc import Iterable

from django.conf import settings

from servers.models import Server

# Coolify's own defaults.
DEFAULT_CONCURRENT_BUILDS = 2
DEFAULT_QUEUE_LIMIT = 25


def build_places(server: Server | None) -> int:
    """How many deployments a server runs at once: MAX_CONCURRENT_DEPLOYMENTS if set, else what
    Coolify last reported, else Coolify's default. None: nothing is known about the server."""
    reported = server.concurrent_builds if server is not None else None
    return settings.MAX_CONCURRENT_DEPLOYMENTS or reported or DEFAULT_CONCURRENT_BUILDS


def concurrent_deployments(server_uuids: Iterable[str]) -> dict[str, int]:
    return {uuid: build_places(server) for uuid, server in _known(server_uuids).items()}


def start_limits(server_uuids: Iterable[str]) -> dict[str, int]:
    """How many starts each server gets at a time.

    As many as it builds at once, and as many again so that no place stands empty. Those wait in
    Coolify's own queue, which silently loses starts when it is full: half of it is left to others.
    """
    return {uuid: _start_limit(server) for uuid, server in _known(server_uuids).items()}


def _start_limit(server: Server | None) -> int:
    places = build_places(server)
    reported = server.deployment_queue_limit if server is not None else None
    return places + min(places, (reported or DEFAULT_QUEUE_LIMIT) // 2)


def _known(server_uuids: Iterable[str]) -> dict[str, Server | None]:
    uuids = list(server_uuids)
    known = {server.uuid: server for server in Server.objects.filter(uuid__in=uuids)}
    return {uuid: known.get(uuid) for uuid in uuids}
