"""The states of our servers: the facts gathered, judged and stored; what a change sets off."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from statistics import median

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from bots.status import FailureCause
from core.clock import database_now
from pool.drain import drain_after_commit
from servers.health import FEWEST_STARTS, IN_SERVICE, Facts, Health, ServerState, judge_server
from servers.models import Server
from servers.reports import add_missing_servers
from slots.deployment import Deployment, DeploymentStatus
from slots.locks import wake_slots
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

# The newest deployments, of which those of the last minutes are judged.
MOST_STARTS = 300
# These say nothing about the server.
_NOT_ITS_FAULT = (FailureCause.SERVER_LOST, FailureCause.OPERATOR, FailureCause.START_REFUSED)


def refresh_servers() -> None:
    """Judge each of our servers, and store a state that has changed. One that cannot be judged
    keeps its state and holds up no other."""
    now = database_now()
    starts = _recent_starts(now)
    for server in our_servers():
        try:
            _refresh(server, starts[server.uuid], now)
        except Exception:
            logger.exception("[Servers] %s could not be judged", server)


def _refresh(server: Server, starts: Iterable[Deployment], now: datetime) -> None:
    _end_what_is_over(server, now)
    health = judge_server(_facts(server, starts, now))
    if (server.state, server.state_reason) != (health.state, health.reason):
        _store(server, health)


def our_servers() -> list[Server]:
    """Those that are wanted or still have slots, the wanted ones first and in their order."""
    wanted = [uuid for uuid in settings.COOLIFY_SERVER_UUIDS if uuid]
    with_slots = Slot.objects.exclude(server_uuid="").exclude(coolify_uuid="").order_by()
    uuids = {*wanted, *with_slots.values_list("server_uuid", flat=True).distinct()}
    add_missing_servers(uuids)
    found = Server.objects.filter(uuid__in=uuids)
    place = {uuid: number for number, uuid in enumerate(wanted)}
    return sorted(found, key=lambda server: (place.get(server.uuid, len(place)), server.uuid))


def _recent_starts(now: datetime) -> dict[str, list[Deployment]]:
    newest = Deployment.objects.filter(start_asked_at__isnull=False).order_by("-pk")[:MOST_STARTS]
    by_server: dict[str, list[Deployment]] = defaultdict(list)
    for each in newest:
        if each.ended_at is not None and now - each.ended_at < settings.SERVER_JUDGED_BY:
            by_server[each.server_uuid].append(each)
    return by_server


def _facts(server: Server, starts: Iterable[Deployment], now: datetime) -> Facts:
    finished = [each for each in starts if each.status == DeploymentStatus.FINISHED]
    failed = [each for each in starts if _is_its_fault(each)]
    seconds = [_length(each).total_seconds() for each in finished if not each.leader]
    order, reason = current_order(server, now)
    return Facts(
        is_wanted=server.uuid in settings.COOLIFY_SERVER_UUIDS,
        unreachable_since=server.unreachable_since,
        unreachable_why="Coolify says that it is not usable" if server.is_reachable else "",
        order=order,
        order_reason=reason,
        starts=len(finished) + len(failed),
        failed_starts=len(failed),
        start_time=timedelta(seconds=median(seconds)) if len(seconds) >= FEWEST_STARTS else None,
        slow_after=settings.SERVER_SLOW_START,
    )


def _is_its_fault(start: Deployment) -> bool:
    failed = start.status in (DeploymentStatus.FAILED, DeploymentStatus.TIMED_OUT)
    return failed and start.failure_cause not in _NOT_ITS_FAULT


def _length(start: Deployment) -> timedelta:
    began = start.building_since or start.start_asked_at
    assert began is not None and start.ended_at is not None
    return start.ended_at - began


# --- Orders and maintenance windows ------------------------------------------------------------


def current_order(server: Server, now: datetime) -> tuple[str, str]:
    """What operators ask for at this time, and why: by order, or by a maintenance window, before
    which the server drains by itself."""
    if server.order and (server.order_until is None or now < server.order_until):
        return server.order, f"{server.order_by}: {server.order_reason}"
    if server.window_from is None or server.window_until is None:
        return "", ""
    if server.window_from <= now + settings.MAINTENANCE_LEAD and now < server.window_until:
        words = f"Maintenance from {server.window_from:%Y-%m-%d %H:%M} UTC: {server.window_reason}"
        return ServerState.DRAINING.value, words
    return "", ""


def _end_what_is_over(server: Server, now: datetime) -> None:
    """Only as it was read: an operator may have given a new order meanwhile."""
    same = Server.objects.filter(pk=server.pk)
    if server.order_until is not None and server.order_until <= now:
        same.filter(order_until=server.order_until).update(**NO_ORDER)
    if server.window_until is not None and server.window_until <= now:
        same.filter(window_until=server.window_until).update(**NO_WINDOW)


NO_ORDER = {
    "order": "", "order_since": None, "order_until": None, "order_reason": "", "order_by": "",
}  # fmt: skip
NO_WINDOW = {"window_from": None, "window_until": None, "window_reason": "", "window_by": ""}


# --- A change ----------------------------------------------------------------------------------


def _store(server: Server, health: Health) -> None:
    changes = server.state != health.state
    with transaction.atomic():
        stored = Server.objects.filter(pk=server.pk, state=server.state).update(
            state=health.state,
            state_reason=health.reason,
            state_evidence=health.evidence,
            **({"state_since": Now()} if changes else {}),
        )
        if stored and changes:
            _announce(server, health)


def _announce(server: Server, health: Health) -> None:
    """Starts on a server that went out of service look again; waiters may use one that is back."""
    line = f"[Servers] {server}: {server.state} → {health.state} | reason={health.reason!r}"
    fields = {"server": server.uuid, "from": server.state, "to": str(health.state)}
    transaction.on_commit(lambda: logger.warning("%s", line, extra={"fields": fields}))
    if health.state not in IN_SERVICE:
        starting = Slot.objects.filter(server_uuid=server.uuid, status=SlotStatus.DEPLOYING)
        wake_slots(starting.values_list("pk", flat=True))
    elif server.state not in IN_SERVICE:
        for platform in settings.MAX_POOL_SIZES:
            drain_after_commit(platform)
