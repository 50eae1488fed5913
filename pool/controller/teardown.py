"""Bringing a slot's container down, until Coolify has shown that it is gone.

A stop in Coolify is only queued, has no id, and removes whatever container there is when it runs.
So a slot must not be given away before its stop has done its work. The caller holds the lease.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, QuerySet

from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotAccepted, NotFound
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from core.clock import database_now, on_this_hosts_clock
from core.leases import HeldLease
from pool.controller.applications import forget_application
from pool.controller.images import let_go_of_pull, mark_image_warm
from pool.controller.observe import Look
from slots.deployment import Deployment
from slots.models import Slot
from slots.status import ContainerStatus, SlotStatus

logger = logging.getLogger(__name__)

# A pass has more to do: slots whose calls hang must not keep everything else from its turn.
LONGEST = 10.0
NO_TIME = timedelta()
PAUSES_AFTER_ERROR = timedelta(seconds=5), timedelta(minutes=1)


def bring_down(
    slot: Slot, *, look: Look | None, coolify: Coolify, lease: HeldLease, actor: str
) -> bool:
    """One step towards a slot without a container; True once there is none.

    Raises CoolifyError: the step is to be taken again later.
    """
    try:
        if not _may_run(slot):
            _end_those_without_application(slot)
            return True
        if not _decide_to_stop(slot):
            return False  # its bot has called meanwhile: it lives
        _end_deployments(slot, coolify, lease)
        # Looked at first: a look is older than a stop that is asked for after it.
        if look is not None and _is_gone(slot, look, coolify):
            return True
        if _stop_is_due(slot):
            _ask_to_stop(slot, coolify, lease)
        return False
    except NotFound:
        reason = "The application is gone from Coolify"
        forget_application(slot, reason=reason, lease=lease, actor=actor)
        _end_those_without_application(slot)
        return True


def pause_after_error(error: CoolifyError, *, since: datetime) -> timedelta:
    """Before the step is taken again. The longer it has not worked, the longer: a quarter of that
    time, within bounds."""
    if error.retry_after:
        return timedelta(seconds=error.retry_after)
    shortest, longest = PAUSES_AFTER_ERROR
    return max(shortest, min((database_now() - since) / 4, longest))


def _may_run(slot: Slot) -> bool:
    """Nothing runs in a slot without an application, or in one whose last start was never asked
    for, since it was stopped before that. In doubt, something may."""
    if not slot.coolify_uuid:
        return False
    last = Deployment.objects.filter(slot=slot).order_by("-id").first()
    never_asked = last is not None and last.start_asked_at is None
    was_deploying = SlotStatus.DEPLOYING in (slot.status, slot.previous_status)
    return not (never_asked and was_deploying)


def _decide_to_stop(slot: Slot) -> bool:
    """From here on no call of its bot can make it busy (slots.moves). False if it was quicker."""
    if slot.stop_asked_at is None:
        as_read = Slot.objects.filter(pk=slot.pk, epoch=slot.epoch, status=slot.status)
        if not as_read.filter(stop_asked_at=None).update(stop_asked_at=database_now()):
            return False
        slot.refresh_from_db()
    return True


def _open_deployments(slot: Slot) -> QuerySet[Deployment]:
    """Those of which Coolify may still make something; never one of a later assignment."""
    return Deployment.objects.filter(
        slot=slot,
        epoch__lte=slot.epoch,
        start_asked_at__isnull=False,
        coolify_ended_at__isnull=True,
    )


def _end_those_without_application(slot: Slot) -> None:
    """What has no application pulls no image either, and holds nobody up any more."""
    if not slot.coolify_uuid:
        for deployment in _open_deployments(slot):
            note_coolify_end(deployment, "application gone")


def _end_deployments(slot: Slot, coolify: Coolify, lease: HeldLease) -> None:
    """A stop cancels nothing: a deployment that waits in Coolify would start it all again."""
    for deployment in _open_deployments(slot):
        lease.check()
        ended_as = _cancel(deployment, slot, coolify)
        note_coolify_end(deployment, ended_as)


def _cancel(deployment: Deployment, slot: Slot, coolify: Coolify) -> str:
    uuid = deployment.deployment_uuid
    try:
        if not uuid and deployment.start_asked_at is not None:
            since = on_this_hosts_clock(deployment.start_asked_at)
            uuid = coolify.resolve_start(slot.coolify_uuid, since=since).uuid
        return coolify.cancel_deployment(uuid).status
    except NotAccepted:
        return "never accepted"
    except NotFound as error:
        if error.thing == "application":
            raise
        return "never accepted"


def note_coolify_end(deployment: Deployment, ended_as: str) -> None:
    this_start = {"pk": deployment.pk, "deployment_uuid": deployment.deployment_uuid}
    if not Deployment.objects.filter(**this_start).update(
        coolify_status=ended_as, coolify_ended_at=database_now()
    ):
        return  # it was started anew meanwhile
    if ended_as == CoolifyStatus.FINISHED:
        mark_image_warm(deployment)
    let_go_of_pull(deployment)


def _stop_is_due(slot: Slot) -> bool:
    """Again only where the container is still seen: a further stop would start the wait anew."""
    asked = slot.stop_asked_at
    if asked is None or slot.stop_attempts == 0:
        return True
    return slot.seen_gone_since is None and database_now() - asked > settings.STOP_RETRY_AFTER


def _ask_to_stop(slot: Slot, coolify: Coolify, lease: HeldLease) -> None:
    lease.check()
    coolify.stop(slot.coolify_uuid)
    Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(
        stop_asked_at=database_now(),
        stop_attempts=F("stop_attempts") + 1,
        stopped_while_running=slot.stopped_while_running or _was_running(slot),
        seen_gone_since=None,
    )
    slot.refresh_from_db()


def _was_running(slot: Slot) -> bool:
    """Seen running, or a bot was alive in it and nothing seen since speaks against it. What was
    seen before that is of an earlier container."""
    if slot.previous_status == SlotStatus.BUSY:
        seen = slot.container_seen_at
        is_of_before = seen is None or seen < slot.status_since - (slot.previous_lasted or NO_TIME)
        stopped = slot.container_status in (ContainerStatus.STOPPED, ContainerStatus.FAILED)
        return is_of_before or not stopped
    return slot.container_status in (ContainerStatus.RUNNING, ContainerStatus.CRASHING)


def _is_gone(slot: Slot, look: Look, coolify: Coolify) -> bool:
    application = look.applications.get(slot.coolify_uuid)
    if application is None:
        coolify.application(slot.coolify_uuid)  # NotFound, if it is really gone
        return False
    asked = slot.stop_asked_at if slot.stop_attempts else None
    stopped_before = asked is not None and look.began_at > asked
    exited = application.status.is_exited and application.server_reachable is not False
    if not stopped_before or not exited or look.is_deploying(slot.coolify_uuid):
        _note_gone_since(slot, None)
        return False
    return _seen_long_enough(slot, look)


def _seen_long_enough(slot: Slot, look: Look) -> bool:
    """A container that was seen running and is now seen exited has stopped. Where it was not seen
    running, `exited` may be an old reading: it has to last longer than readings can be old."""
    since = slot.seen_gone_since or look.began_at
    _note_gone_since(slot, since)
    needed = timedelta() if slot.stopped_while_running else settings.STOP_CONFIRM_AFTER
    return look.began_at - since >= needed


def _note_gone_since(slot: Slot, since: datetime | None) -> None:
    if slot.seen_gone_since != since:
        Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(seen_gone_since=since)
        slot.seen_gone_since = since
