"""Spare Coolify its long list while nothing has changed.

The resources of a server are a small part of the list of applications: a uuid and a status each.
They do not say whether Coolify reaches the server, how often a container crashed, or what its
description is. So nothing is decided by them. If they show what the last list showed, that list
will do for a few seconds more; if they show anything else, or fail, the list is asked for.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Q
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.client.errors import CoolifyError
from pool.controller.observation_times import longest_pause, pressure
from slots.deployment import Deployment, DeploymentStatus, Watch
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

# Each costs a call, and an observation by list costs two in all.
MOST_SERVERS = 2


def nothing_has_changed(coolify: Coolify, *, now: datetime) -> bool:
    """Whether the list that was stored last still shows what a new one would."""
    servers = _servers_with_questions(now)
    if not servers:
        return False
    # Read before Coolify is asked: an application that is created in between is no change.
    known = dict(_stored_states(servers))
    Watch.objects.update(resources_asked_at=Now())
    try:
        shown = {
            each.uuid: each.status.state[:30]
            for server in sorted(servers)
            for each in coolify.server_resources(server)
        }
    except CoolifyError as error:
        logger.debug("The resources of servers could not be read: %s", error)
        return False
    return all(shown.get(uuid) == state for uuid, state in known.items())


def list_lasts_for() -> timedelta:
    """How old a list may be that is not asked for again: facts that only it has are never older
    than this while they matter."""
    return longest_pause() / 3


def _servers_with_questions(now: datetime) -> set[str]:
    """The servers on which a start or stop is under way; empty if only a list will do.

    That is so if the last list is old or failed, or does not show a start or stop from after its
    beginning; if there are too many servers; and under pressure, when calls count more than bytes.
    """
    watch = Watch.objects.first()
    if watch is None or watch.observed_at is None or watch.failing_since is not None:
        return set()
    if now - watch.observed_at >= list_lasts_for() or _began_since(watch.observed_at):
        return set()
    servers = set(Slot.objects.filter(_is_awaited()).values_list("server_uuid", flat=True))
    if "" in servers or len(servers) > MOST_SERVERS or pressure() > 0:
        return set()
    return servers


def _is_awaited() -> Q:
    starting = Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS).values("slot_id")
    return Q(status=SlotStatus.STOPPING, stop_asked_at__isnull=False) | Q(pk__in=starting)


def _began_since(listed_at: datetime) -> bool:
    """Whether a start or stop began after the list did, which so does not show it."""
    starts = Deployment.objects.filter(
        status=DeploymentStatus.IN_PROGRESS, status_since__gte=listed_at
    )
    stops = Slot.objects.filter(status=SlotStatus.STOPPING, stop_asked_at__gte=listed_at)
    return starts.exists() or stops.exists()


def _stored_states(servers: set[str]) -> Iterable[tuple[str, str | None]]:
    """By application; None for one that the last list lacked."""
    slots = Slot.objects.filter(server_uuid__in=servers).exclude(coolify_uuid="")
    for uuid, state, is_missing in slots.values_list(
        "coolify_uuid", "application_state", "application_missing"
    ):
        yield uuid, None if is_missing else state
