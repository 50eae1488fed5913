"""Who may start: the image first, then a build place on the server. No call to Coolify.

Both lines are ordered like the queue, by turn: the time of the bot's request plus its priority.
"""

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from coolify.server_limits import concurrent_deployments, queue_limits
from core.locks import advisory_lock
from pool.controller.images import (
    choose_leaders,
    let_warm_ones_through,
    note_who_waits,
    settle_pulls,
)
from pool.lock_names import BUILD_PLACES
from slots.deployment import UNDER_WAY, Deployment, DeploymentStatus
from slots.locks import wake_slots


def line_up() -> list[int]:
    """Give images and build places to the deployments whose turn it is, and wake their slots."""
    settle_pulls()
    let_warm_ones_through()
    choose_leaders()
    note_who_waits()
    given = give_places()
    if given:
        wake_slots(given)
    return given


def give_places() -> list[int]:
    """Let the first in line start, and return their slots.

    Each server gets as many as it builds at once, and as many again so that no place stands empty.
    Those wait in Coolify's own queue, which silently loses starts when it is full: half of it is
    left to others.
    """
    waiting = _waiting()
    servers = list(waiting.order_by().values_list("server_uuid", flat=True).distinct())
    builds, queues = concurrent_deployments(servers), queue_limits(servers)
    limits = {s: builds[s] + min(builds[s], queues[s] // 2) for s in servers}
    return [slot for server in servers for slot in _give_places(server, limit=limits[server])]


def _give_places(server: str, *, limit: int) -> list[int]:
    with transaction.atomic():
        advisory_lock(BUILD_PLACES.format(server=server))
        on_server = Deployment.objects.filter(server_uuid=server)
        building = on_server.filter(status__in=UNDER_WAY, coolify_ended_at__isnull=True).count()
        front = _waiting().filter(server_uuid=server).order_by("turn", "id")
        chosen = front[: max(0, limit - building)]
        return [each.slot_id for each in chosen if _give_place(each)]


def _give_place(deployment: Deployment) -> bool:
    """False if it no longer waits: its bot may have been cancelled."""
    return bool(
        _waiting()
        .filter(pk=deployment.pk)
        .update(
            status=DeploymentStatus.STARTING,
            status_since=Now(),
            deadline=Now() + settings.DEPLOY_TIMEOUT,
            reason="Has a build place",
        )
    )


def _waiting() -> QuerySet[Deployment]:
    """One that is too late is left to its own slot, which gives up."""
    waiting = Deployment.objects.filter(status=DeploymentStatus.WAITING_FOR_PLACE)
    return waiting.exclude(next_try_at__gt=Now()).exclude(deadline__lte=Now())
