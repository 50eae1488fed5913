"""Starting a slot's container: places, environment, the start itself, and its answer."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest, Now

from bots.models import Bot
from coolify.bot_data import BOT_DATA, encode_bot_data
from coolify.client import Coolify
from coolify.client.errors import BudgetExhausted, CoolifyError, NotAccepted, NotFound, Refused
from coolify.server_limits import concurrent_deployments, queue_limits
from core.clock import database_now, on_this_hosts_clock
from core.leases import HeldLease, LeaseLost, LeaseNotAcquired
from core.locks import advisory_lock
from pool.controller.applications import forget_application, make_application, set_image
from pool.lock_names import BUILD_PLACES
from slots.correlation import story_of
from slots.deployment import UNDER_WAY, Deployment, DeploymentStatus
from slots.locks import with_status_lock
from slots.models import Slot
from slots.status import SlotStatus
from slots.tokens import make_bot_token

logger = logging.getLogger(__name__)

ACTOR = "deployments"
LONGEST_BACKOFF = 60.0


# --- A place to build in ---------------------------------------------------------------------


def give_places() -> int:
    """Let those at the front start, as many as each server builds at once, and some ahead, so that
    none of its places stands empty between two of our passes. They wait in Coolify's own queue,
    which loses starts without a word when it is full: half of it is left to others."""
    waiting = due_deployments().filter(status=DeploymentStatus.WAITING_FOR_PLACE)
    servers = list(waiting.order_by().values_list("server_uuid", flat=True).distinct())
    builds, queues = concurrent_deployments(servers), queue_limits(servers)
    return sum(
        _give_places(server, limit=builds[server] + min(builds[server], queues[server] // 2))
        for server in servers
    )


def _give_places(server: str, *, limit: int) -> int:
    with transaction.atomic():
        advisory_lock(BUILD_PLACES.format(server=server))
        on_server = Deployment.objects.filter(server_uuid=server)
        building = on_server.filter(status__in=UNDER_WAY, coolify_ended_at__isnull=True).count()
        waiting = due_deployments().filter(
            status=DeploymentStatus.WAITING_FOR_PLACE, server_uuid=server
        )
        front = waiting.order_by("id").values_list("pk", flat=True)[: max(0, limit - building)]
        return on_server.filter(pk__in=list(front)).update(
            status=DeploymentStatus.STARTING,
            status_since=Now(),
            deadline=Now() + settings.DEPLOY_TIMEOUT,
            reason="Has a build place",
        )


def due_deployments() -> QuerySet[Deployment]:
    return Deployment.objects.filter(Q(next_try_at__isnull=True) | Q(next_try_at__lte=Now()))


# --- The start -------------------------------------------------------------------------------


def due_starts() -> list[Deployment]:
    due = due_deployments().filter(status=DeploymentStatus.STARTING, condemned="")
    in_turn = due.order_by(F("next_try_at").asc(nulls_first=True), "id")
    return list(in_turn.select_related("slot", "bot"))


def start(deployment: Deployment, coolify: Coolify) -> None:
    """Bring one slot up as far as Coolify's yes. What goes wrong is tried again later."""
    with story_of(deployment):
        _start_if_wanted(deployment, coolify)


def _start_if_wanted(deployment: Deployment, coolify: Coolify) -> None:
    try:
        with with_status_lock(deployment.slot, tries=1) as lease:
            slot = Slot.objects.get(pk=deployment.slot_id)
            deployment.refresh_from_db()
            if _still_wanted(deployment, slot):
                _start(deployment, slot, coolify=coolify, lease=lease)
    except (LeaseNotAcquired, LeaseLost) as error:
        logger.info("[Pool] %s is left to somebody else: %s", deployment, error)
    except _NotWantedAnyMore:
        logger.info("[Pool] %s: its bot has left meanwhile, it is not started", deployment)


class _NotWantedAnyMore(Exception):
    """While Coolify was asked for something else the slot has moved on."""


def _still_wanted(deployment: Deployment, slot: Slot) -> bool:
    return (
        deployment.status == DeploymentStatus.STARTING
        and slot.epoch == deployment.epoch
        and slot.status == SlotStatus.DEPLOYING
    )


def _start(deployment: Deployment, slot: Slot, *, coolify: Coolify, lease: HeldLease) -> None:
    bot = Bot.objects.get(pk=deployment.bot_id)
    try:
        uuid = _earlier_start(deployment, slot, coolify) or _new_start(
            deployment, slot, bot, coolify=coolify, lease=lease
        )
    except CoolifyError as error:
        _try_again_later(deployment, error)
    else:
        with lease.fenced():
            _accept(deployment, uuid)


def _earlier_start(deployment: Deployment, slot: Slot, coolify: Coolify) -> str:
    """The deployment that an earlier try led to whose answer we never got."""
    if deployment.start_asked_at is None or not slot.coolify_uuid:
        return ""
    try:
        since = on_this_hosts_clock(deployment.start_asked_at)
        found = coolify.resolve_start(slot.coolify_uuid, since=since)
    except (NotAccepted, NotFound):
        return ""
    return found.uuid


def _new_start(
    deployment: Deployment, slot: Slot, bot: Bot, *, coolify: Coolify, lease: HeldLease
) -> str:
    _write_environment(slot, bot, image=deployment.image, coolify=coolify, lease=lease)
    # Written down before the call: whoever takes over from us knows that it may have been made.
    asked_at = database_now()
    wanted = Deployment.objects.filter(pk=deployment.pk, status=DeploymentStatus.STARTING)
    if not wanted.update(
        start_asked_at=Coalesce("start_asked_at", asked_at), attempt=F("attempt") + 1
    ):
        raise _NotWantedAnyMore
    lease.check()
    answer = coolify.start(slot.coolify_uuid)
    if answer.deployment_uuid:
        return answer.deployment_uuid
    since = on_this_hosts_clock(deployment.start_asked_at or asked_at)
    return coolify.resolve_start(slot.coolify_uuid, since=since).uuid


def _write_environment(
    slot: Slot, bot: Bot, *, image: str, coolify: Coolify, lease: HeldLease
) -> None:
    """Tell the container which bot it is; make its application where there is none (any more)."""
    if slot.coolify_uuid:
        try:
            _prepare_application(slot, bot, image=image, coolify=coolify, lease=lease)
            return
        except NotFound:
            reason = "The application is gone from Coolify"
            forget_application(slot, reason=reason, lease=lease, actor=ACTOR)
    make_application(slot, image=image, coolify=coolify, lease=lease, actor=ACTOR)
    _prepare_application(slot, bot, image=image, coolify=coolify, lease=lease)


def _prepare_application(
    slot: Slot, bot: Bot, *, image: str, coolify: Coolify, lease: HeldLease
) -> None:
    set_image(slot, image, coolify=coolify, lease=lease)
    lease.check()
    coolify.set_envs(slot.coolify_uuid, container_environment(slot, bot))


def container_environment(slot: Slot, bot: Bot) -> dict[str, str]:
    data = {
        "botId": bot.pk,
        "token": make_bot_token(slot),
        "epoch": slot.epoch,
        "apiUrl": f"{settings.PUBLIC_URL}/api/v1",
        "meetingUrl": bot.meeting_url,
        "botDisplayName": bot.display_name,
        "platform": bot.platform,
        "correlationId": bot.correlation_id,
        "config": bot.config,
    }
    return {"POOL_SLOT_UUID": slot.coolify_uuid, BOT_DATA: encode_bot_data(data)}


# --- Coolify's answer ------------------------------------------------------------------------


def _accept(deployment: Deployment, uuid: str) -> None:
    """Coolify says that it will. Only a claim, until the deployment is seen (deployments.py)."""
    Deployment.objects.filter(pk=deployment.pk, status=DeploymentStatus.STARTING).update(
        status=DeploymentStatus.IN_PROGRESS,
        status_since=Now(),
        deployment_uuid=uuid,
        next_try_at=None,
        reason="Start accepted by Coolify",
    )
    logger.info("[Pool] %s: start accepted as %s", deployment, uuid)


def _try_again_later(deployment: Deployment, error: CoolifyError) -> None:
    """An error at the start is no failed deployment: only its deadline makes it one, or Coolify's
    plain refusal of this very request."""
    if isinstance(error, Refused):
        condemn(deployment, f"Coolify refused the start: {error}")
        return
    pause = _pause_after(deployment, error)
    Deployment.objects.filter(pk=deployment.pk, status=DeploymentStatus.STARTING).update(
        next_try_at=Now() + timedelta(seconds=pause),
        reason=str(error),
        # Also a try that did not get as far as the start makes the next pause longer.
        attempt=Greatest("attempt", deployment.attempt + (not _was_held_back(error))),
    )
    level = logging.DEBUG if _was_held_back(error) else logging.WARNING
    logger.log(level, "[Pool] %s: tried again in %.0f s: %s", deployment, pause, error)


def _was_held_back(error: CoolifyError) -> bool:
    return isinstance(error, BudgetExhausted)


def _pause_after(deployment: Deployment, error: CoolifyError) -> float:
    return error.retry_after or min(LONGEST_BACKOFF, 2.0 ** min(deployment.attempt, 6))


def condemn(deployment: Deployment, reason: str) -> None:
    """It has failed. What there is of its container is brought down before the bot is placed
    anywhere else, because a bot must never run twice."""
    Deployment.objects.filter(pk=deployment.pk, status__in=UNDER_WAY, condemned="").update(
        condemned=reason,
        reason=reason,
        deadline=Now() + settings.DEPLOY_GRACE_PERIOD,
        next_try_at=None,
    )
    logger.warning("[Pool] %s failed: %s", deployment, reason)
