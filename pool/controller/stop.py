"""From `stopping` to `idle`: cancel, stop, and confirm that the container is gone. The way out of
`error` leads through it.

Coolify only queues a stop, gives it no id, and removes whatever container exists when the stop
runs. So a slot must not be given away before its stop is done.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from bots.status import FailureCause
from coolify.client.errors import BudgetExhausted, CoolifyError, NotAccepted, NotFound
from core.clock import database_now, on_this_hosts_clock
from pool.controller.applications import (
    delete_application,
    forget_application,
    forget_missing_application,
)
from pool.controller.belief.answers import require_no_deployment
from pool.controller.containers.gone import UP, is_gone, still_runs
from pool.controller.context import AT_ONCE, SlotContext, pause_after_error
from pool.controller.images import note_coolify_end
from pool.controller.logs.keep import keep_container_log, keep_deployment_log
from pool.controller.places import line_up
from pool.lifecycle import confirm_slot_stopped, handle_slot_error, recover_slot, recovers_at
from slots.deployment import Deployment
from slots.models import Slot, SlotTransition
from slots.status import ContainerStatus, SlotStatus

logger = logging.getLogger(__name__)

# Safety net: an observation wakes the slot sooner.
CHECK_AGAIN = timedelta(seconds=30)
STOPPED = (ContainerStatus.STOPPED, ContainerStatus.FAILED, ContainerStatus.IDLE)


def stop(context: SlotContext) -> timedelta | None:
    """One step towards a slot without a container; the last one makes it idle."""
    slot = context.slot
    if (left := _time_until_next_try(slot)) > timedelta():
        return left
    try:
        gone = _bring_down(context)
        if gone and slot.recreate:
            keep_deployment_log(context)
            _delete_application(context)
    except CoolifyError as error:
        return _try_again_later(slot, error)
    if gone:
        with context.lease.fenced():
            confirm_slot_stopped(slot, reason="The container is gone", actor=context.actor)
        return AT_ONCE
    if _was_asked_often(slot) and still_runs(context):
        _give_up(context)
        return AT_ONCE
    return CHECK_AGAIN


def recover(context: SlotContext) -> timedelta | None:
    """A slot in `error`: cancel what Coolify may still start, and stop it when its pause is over.

    The first attempt only stops it; the next ones also replace its application.
    """
    slot = context.slot
    due = recovers_at(slot)
    left = due - database_now() if due is not None else None
    if _is_out_of_reach(slot) and left is not None:
        left = max(left, CHECK_AGAIN)  # nothing can be stopped there: the attempt would be lost
    if left is not None and left <= timedelta():
        reason = f"Attempt {slot.recovery_attempts + 1} to recover from: {slot.error}"
        with context.lease.fenced():
            recover_slot(
                slot, reason=reason, actor=context.actor, recreate=slot.recovery_attempts > 0
            )
        return AT_ONCE
    again = _quarantine(context)
    return min((each for each in (left, again) if each is not None), default=None)


def _quarantine(context: SlotContext) -> timedelta | None:
    """Cancel what Coolify may still start for a slot in `error`: no container comes up late, and
    another deployment may pull its image. Then keep its log, while it is not stopped yet."""
    slot = context.slot
    if (left := _time_until_next_try(slot)) > timedelta():
        return left
    if slot.coolify_uuid and _open_deployments(slot).exists():
        try:
            _end_deployments(context)
        except NotFound:
            pass  # the application is gone: recovery handles that
        except CoolifyError as error:
            return _try_again_later(slot, error)
    return keep_container_log(context, last_chance=False)


def _time_until_next_try(slot: Slot) -> timedelta:
    return slot.next_try_at - database_now() if slot.next_try_at is not None else timedelta()


def _try_again_later(slot: Slot, error: CoolifyError) -> timedelta:
    pause = pause_after_error(error, since=slot.status_since)
    Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(next_try_at=Now() + pause)
    level = logging.DEBUG if isinstance(error, BudgetExhausted) else logging.WARNING
    logger.log(level, "[Pool] %s is not stopped yet: %s", slot, error)
    return pause


# --- Bringing the container down --------------------------------------------------------------


def _bring_down(context: SlotContext) -> bool:
    """True once there is no container. After a CoolifyError, try again."""
    slot = context.slot
    try:
        if not _may_run(slot):
            _end_those_without_application(slot)
            return True
        _end_deployments(context)
        return _stop_container(context)
    except NotFound:
        forget_missing_application(context)
        _end_those_without_application(slot)
        return True


def _stop_container(context: SlotContext) -> bool:
    slot = context.slot
    if _is_out_of_reach(slot):
        _withdraw_stop(slot)
        return False
    if slot.stop_asked_at is None:
        keep_container_log(context, last_chance=True)
        _ask_to_stop(context)
        return False
    if is_gone(context):
        return True
    if still_runs(context) and not _was_asked_often(slot):
        _ask_to_stop(context)
    return False


def _is_out_of_reach(slot: Slot) -> bool:
    """Coolify accepts a stop there, stops nothing, and its statuses are old. Of an application that
    is missing, what was last observed of its server is old, too."""
    return slot.server_unreachable and not slot.application_missing


def _withdraw_stop(slot: Slot) -> None:
    """What it led to is unknown: once the server is back, ask again, and believe only that."""
    if slot.stop_asked_at is not None:
        Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(stop_asked_at=None)


def _was_asked_often(slot: Slot) -> bool:
    return slot.stop_attempts >= settings.STOP_MAX_ATTEMPTS


def _may_run(slot: Slot) -> bool:
    """Whether a container may run. None does without an application, in a slot that was idle and is
    to be replaced, or if the slot was stopped before its start was sent. In doubt, True."""
    if not slot.coolify_uuid:
        return False
    if slot.recreate and slot.previous_status == SlotStatus.IDLE:
        return slot.container_status not in STOPPED
    last = Deployment.objects.filter(slot=slot).order_by("-id").first()
    never_asked = last is not None and last.start_asked_at is None
    return not (never_asked and slot.previous_status == SlotStatus.DEPLOYING)


def _open_deployments(slot: Slot) -> QuerySet[Deployment]:
    """Deployments that Coolify may still carry out; never one of a later assignment."""
    return Deployment.objects.filter(
        slot=slot,
        epoch__lte=slot.epoch,
        start_asked_at__isnull=False,
        coolify_ended_at__isnull=True,
    )


def _end_those_without_application(slot: Slot) -> None:
    """A deployment without an application pulls no image: others need not wait for it."""
    if not slot.coolify_uuid:
        for deployment in _open_deployments(slot):
            note_coolify_end(deployment, "application gone")


def _end_deployments(context: SlotContext) -> None:
    """A stop cancels nothing: a deployment in Coolify's queue would start the container again."""
    ended = False
    for deployment in _open_deployments(context.slot):
        context.lease.check()
        note_coolify_end(deployment, _cancel(context, deployment))
        ended = True
    if ended:
        line_up()  # its build place is free, and another may pull the image


def _cancel(context: SlotContext, deployment: Deployment) -> str:
    uuid, coolify = deployment.deployment_uuid, context.coolify
    try:
        if not uuid and deployment.start_asked_at is not None:
            since = on_this_hosts_clock(deployment.start_asked_at)
            uuid = coolify.resolve_start(context.slot.coolify_uuid, since=since).uuid
        return coolify.cancel_deployment(uuid).status
    except NotAccepted:
        return "never accepted"
    except NotFound as error:
        if error.thing == "application":
            raise
        require_no_deployment(coolify, context.slot.coolify_uuid)
        return "never accepted"


def _ask_to_stop(context: SlotContext) -> None:
    slot = context.slot
    context.lease.check()
    context.coolify.stop(slot.coolify_uuid)
    Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(
        stop_asked_at=database_now(),
        stop_attempts=F("stop_attempts") + 1,
        stopped_while_running=slot.stopped_while_running or _was_running(slot),
        docker_asked_at=None,
        stop_refused_at=None,
    )


def _was_running(slot: Slot) -> bool:
    """Whether it was observed running, or a bot was alive in it and no later observation says
    otherwise. An observation from before the bot shows an earlier container."""
    if slot.previous_status == SlotStatus.BUSY:
        seen = slot.container_seen_at
        is_of_before = seen is None or seen < slot.busy_since
        return is_of_before or slot.container_status not in STOPPED
    return slot.container_status in UP


def _delete_application(context: SlotContext) -> None:
    """The next start creates a new one."""
    slot = context.slot
    if not slot.coolify_uuid:
        return
    context.lease.check()
    delete_application(slot, context.coolify)
    forget_application(
        context,
        reason="Application deleted; the next start creates a new one",
        kind=SlotTransition.Kind.APPLICATION_DELETED,
    )


def _give_up(context: SlotContext) -> None:
    attempts = context.slot.stop_attempts
    error = f"Asked Coolify {attempts} times to stop the container, but it still runs"
    handle_slot_error(context.slot, error, cause=FailureCause.STOP_FAILED, actor=context.actor)
