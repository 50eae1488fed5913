"""Starts on a server that is out of service: when their bots are placed elsewhere."""

from datetime import timedelta

from django.conf import settings

from core.clock import database_now
from pool.lifecycle import place_elsewhere
from servers.health import IN_SERVICE
from servers.models import Server
from slots.deployment import Deployment
from slots.models import Slot

TRY_AGAIN = timedelta(seconds=5)


def leave_lost_server(slot: Slot, deployment: Deployment, *, actor: str) -> timedelta | None:
    """Place the bot elsewhere if its server is out of service. Returns when that is due: zero if
    it was done, None if there is no need.

    A start that was not sent yet moves at once. One that was sent moves once its server has been
    unreachable for SERVER_LOST_AFTER; on a cordoned or draining server it goes on.
    """
    out = Server.objects.filter(uuid=deployment.server_uuid).exclude(state__in=IN_SERVICE)
    server = out.first()
    if server is None:
        return None
    was_started = deployment.start_asked_at is not None
    if was_started and (left := _until_lost(server)) != timedelta():
        return left
    reason = f"Server {server} is {server.get_state_display().lower()}: {server.state_reason}"
    moved = place_elsewhere(slot, reason, actor=actor, was_started=was_started)
    return timedelta() if moved else TRY_AGAIN


def _until_lost(server: Server) -> timedelta | None:
    if server.unreachable_since is None:
        return None
    lost_at = server.unreachable_since + settings.SERVER_LOST_AFTER
    return max(timedelta(), lost_at - database_now())
