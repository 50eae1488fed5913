"""Who may start: the image first, then a build place on the server. No call to Coolify.

Both lines are ordered like the queue, by turn: the time of the bot's request plus its priority.
"""

from collections import Counter

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from core.locks import advisory_lock
from pool.controller.images import (
    any_waits_for_image,
    choose_leaders,
    let_warm_ones_through,
    note_who_waits,
    notice_pulls,
    settle_pulls,
)
from pool.lock_names import BUILD_PLACES
from servers.health import IN_SERVICE
from servers.limits import start_limits
from servers.models import Server
from slots.correlation import as_bot_of
from slots.deployment import UNDER_WAY, Deployment, DeploymentStatus
from slots.history import log_deployment
from slots.locks import wake_slots


def line_up() -> list[int]:
    """Give images and build places to the deployments whose turn it is, and wake their slots."""
    settle_pulls()
    notice_pulls()
    if any_waits_for_image():
        let_warm_ones_through()
        choose_leaders()
        note_who_waits()
    given = give_places()
    wake_slots(given)
    return given


def take_turn(deployment: Deployment) -> None:
    """Line up for one deployment, whose slot is awake. Most find a warm image and a free place,
    and need only a part of the queries."""
    waits_for_image = deployment.status == DeploymentStatus.WAITING_FOR_IMAGE
    if waits_for_image and deployment.pk not in let_warm_ones_through():
        line_up()
    else:
        wake_slots(set(give_places([deployment.server_uuid])) - {deployment.slot_id})


def give_places(servers: list[str] | None = None) -> list[int]:
    """Let the first in line start on these servers, by default on all; return their slots."""
    if servers is None:
        servers = list(_waiting().order_by().values_list("server_uuid", flat=True).distinct())
    limits = start_limits(servers)
    if len(servers) > 1:
        # Without a lock: what frees a place lines up again once that is committed.
        under_way = Counter(_building(servers).values_list("server_uuid", flat=True))
        servers = [server for server in servers if under_way[server] < limits[server]]
    return [slot for server in servers for slot in _give_places(server, limit=limits[server])]


def _give_places(server: str, *, limit: int) -> list[int]:
    with transaction.atomic():
        advisory_lock(BUILD_PLACES.format(server=server))
        free = max(0, limit - _building([server]).count())
        front = _waiting().filter(server_uuid=server).order_by("turn", "id")
        chosen = front.select_related("bot")[:free]
        return [each.slot_id for each in chosen if _give_place(each)]


def _give_place(deployment: Deployment) -> bool:
    """False if it no longer waits: its bot may have been cancelled."""
    to, reason = DeploymentStatus.STARTING, "Has a build place"
    deadline = Now() + settings.DEPLOY_TIMEOUT
    this = _waiting().filter(pk=deployment.pk)
    given = this.update(
        status=to, status_since=Now(), place_at=Now(), deadline=deadline, reason=reason
    )
    if given:
        with as_bot_of(deployment):
            log_deployment(deployment, to=to, reason=reason)
    return bool(given)


def _building(servers: list[str]) -> QuerySet[Deployment]:
    on_servers = Deployment.objects.filter(server_uuid__in=servers, status__in=UNDER_WAY)
    return on_servers.filter(coolify_ended_at__isnull=True)


def _waiting() -> QuerySet[Deployment]:
    """One that is too late is left to its own slot, which gives up; one on a server that is out of
    service, too: its bot is placed elsewhere."""
    out_of_service = Server.objects.exclude(state__in=IN_SERVICE).values("uuid")
    waiting = Deployment.objects.filter(status=DeploymentStatus.WAITING_FOR_PLACE)
    waiting = waiting.exclude(server_uuid__in=out_of_service)
    return waiting.exclude(next_try_at__gt=Now()).exclude(deadline__lte=Now())
