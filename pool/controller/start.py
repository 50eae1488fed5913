"""From `deploying` to `busy`: image, build place, environment, start, and its result."""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Coalesce, Greatest, Least, Now

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from coolify.bot_data import BOT_DATA, encode_bot_data
from coolify.client.errors import BudgetExhausted, CoolifyError, NotAccepted, NotFound, Refused
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from core.clock import database_now, on_this_hosts_clock
from pool.controller.applications import (
    APPLICATION_GONE,
    fit_application,
    forget_missing_application,
    make_application,
)
from pool.controller.belief.answers import require_gone, require_no_deployment
from pool.controller.context import AT_ONCE, SlotContext
from pool.controller.images import note_coolify_end
from pool.controller.observation_times import pressure
from pool.controller.places import line_up, take_turn
from pool.controller.verdict import Evidence, Verdict, judge
from pool.images.in_use import has_rejected_image
from pool.images.rollout import line_up_again
from pool.lifecycle import (
    give_up_start,
    handle_slot_error,
    mark_slot_running,
    release_bot_from_slot,
)
from pool.servers.starts import leave_lost_server
from slots.deployment import ACTIVE, WAITING, Deployment, DeploymentStatus
from slots.history import log_deployment
from slots.models import Slot
from slots.status import ContainerStatus, SlotStatus
from slots.tokens import make_bot_token

logger = logging.getLogger(__name__)

LONGEST_BACKOFF = 60.0
# Safety nets: normally the slot is woken sooner.
CHECK_LINE_AGAIN = timedelta(seconds=5)
CHECK_DEPLOYMENT_AGAIN = timedelta(seconds=30)
# A bot calls within this time after its container has started.
FIRST_CALL = timedelta(seconds=5)


def deploy(context: SlotContext) -> timedelta | None:
    """One step of a deployment, by its status."""
    deployment = _current(context.slot)
    if deployment is None:
        # Unless its bot has called or left since the slot was read.
        if _still_deploys(context.slot):
            reason = "The slot is deploying, but no deployment is recorded"
            _fail(context, reason, FailureCause.INCONSISTENT)
        return AT_ONCE
    leaves = leave_lost_server(context.slot, deployment, actor=context.actor)
    if leaves == AT_ONCE:
        return AT_ONCE
    step = _next_step(context, deployment)
    return min(step, leaves) if leaves is not None else step


def _next_step(context: SlotContext, deployment: Deployment) -> timedelta:
    if deployment.status in WAITING:
        return _wait_for_turn(context, deployment)
    if deployment.status == DeploymentStatus.STARTING:
        return _start_in_time(context, deployment)
    return wait_for_deployment(context, deployment)


def _still_deploys(slot: Slot) -> bool:
    same = Slot.objects.filter(pk=slot.pk, epoch=slot.epoch)
    return same.filter(status=SlotStatus.DEPLOYING).exists()


def _current(slot: Slot) -> Deployment | None:
    current = Deployment.objects.filter(slot=slot, epoch=slot.epoch, status__in=ACTIVE)
    return current.select_related("bot").first()


# --- Waiting for the image and a build place --------------------------------------------------


def _wait_for_turn(context: SlotContext, deployment: Deployment) -> timedelta:
    if _is_late(deployment):
        _give_up_waiting(context, deployment)
        return AT_ONCE
    take_turn(deployment)
    deployment.refresh_from_db()
    if deployment.status not in WAITING:
        return AT_ONCE
    return min(CHECK_LINE_AGAIN, max(_time_left(deployment), AT_ONCE + timedelta.resolution))


def _give_up_waiting(context: SlotContext, deployment: Deployment) -> None:
    """The queue timeout covers the wait for a slot and for all that a start needs."""
    what = deployment.get_status_display().lower()
    waited = database_now() - deployment.created_at
    why = f": {deployment.reason}" if deployment.reason else ""
    reason = f"gave up after {waited.total_seconds():.0f} s {what}{why}"
    outcome = Outcome(BotStatus.FAILED, reason, context.actor, FailureCause.QUEUE_TIMEOUT)
    release_bot_from_slot(context.slot, outcome)


def _is_late(deployment: Deployment, *, now: datetime | None = None) -> bool:
    return deployment.deadline is not None and _time_left(deployment, now=now) <= timedelta()


def _time_left(deployment: Deployment, *, now: datetime | None = None) -> timedelta:
    now = now or database_now()
    return (deployment.deadline or now + settings.DEPLOY_TIMEOUT) - now


# --- The start --------------------------------------------------------------------------------


def _start_in_time(context: SlotContext, deployment: Deployment) -> timedelta:
    now = database_now()
    if _is_late(deployment, now=now):
        reason = f"Coolify did not accept the start in time: {deployment.reason}"
        logger.warning("[Pool] %s: %s", context.slot, reason)
        give_up_start(context.slot, reason, actor=context.actor)
        return AT_ONCE
    if deployment.next_try_at is not None and deployment.next_try_at > now:
        left = _time_left(deployment, now=now)
        return min(deployment.next_try_at - now, max(left, timedelta(seconds=1)))
    try:
        uuid = _earlier_start(context, deployment) or _new_start(context, deployment)
    except _NoLongerWanted:
        logger.info("[Pool] %s: not started, its bot or its image has changed", deployment)
    except CoolifyError as error:
        _try_again_later(context, deployment, _believed(context, error))
    else:
        with context.lease.fenced():
            _accept(deployment, uuid)
    return AT_ONCE


def _believed(context: SlotContext, error: CoolifyError) -> CoolifyError:
    """The error itself, or why it may not be believed."""
    if isinstance(error, NotFound):
        try:
            require_gone(context.coolify, context.slot.coolify_uuid)
        except CoolifyError as doubt:
            return doubt
    return error


class _NoLongerWanted(Exception):
    """The slot has moved on while the start was prepared, or its image was rejected."""


def _earlier_start(context: SlotContext, deployment: Deployment) -> str:
    """The deployment of an earlier try whose answer was lost; empty if there is none."""
    if deployment.start_asked_at is None or not context.slot.coolify_uuid:
        return ""
    try:
        since = on_this_hosts_clock(deployment.start_asked_at)
        found = context.coolify.resolve_start(context.slot.coolify_uuid, since=since)
    except (NotAccepted, NotFound):
        return ""
    return found.uuid


def _new_start(context: SlotContext, deployment: Deployment) -> str:
    _write_environment(context, deployment)
    # Recorded before the call: a worker that takes over then knows that it may have been made.
    wanted = Deployment.objects.filter(pk=deployment.pk, status=DeploymentStatus.STARTING)
    platform = context.slot.platform
    rejected = has_rejected_image(platform=platform, server=deployment.server_uuid)
    if not wanted.exclude(rejected).update(
        start_asked_at=Coalesce("start_asked_at", Now()), attempt=F("attempt") + 1
    ):
        line_up_again(deployment, platform=platform)
        raise _NoLongerWanted
    context.lease.check()
    uuid = context.slot.coolify_uuid
    answer = context.coolify.start(uuid)
    if answer.deployment_uuid:
        return answer.deployment_uuid
    deployment.refresh_from_db(fields=["start_asked_at"])
    since = on_this_hosts_clock(deployment.start_asked_at or database_now())
    return context.coolify.resolve_start(uuid, since=since).uuid


def _write_environment(context: SlotContext, deployment: Deployment) -> None:
    """Tell the container which bot it runs; create the application if it is missing."""
    if context.slot.coolify_uuid:
        try:
            _prepare_application(context, deployment)
            return
        except NotFound:
            forget_missing_application(context)
    make_application(context, image=deployment.image)
    _prepare_application(context, deployment)


def _prepare_application(context: SlotContext, deployment: Deployment) -> None:
    fit_application(context, deployment.image)
    context.lease.check()
    variables = container_environment(context.slot, deployment.bot)
    context.coolify.set_envs(context.slot.coolify_uuid, variables, secret=[BOT_DATA])


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


def _accept(deployment: Deployment, uuid: str) -> None:
    """Coolify accepted the start. That is only a promise until the deployment is observed."""
    to, reason = DeploymentStatus.IN_PROGRESS, "Start accepted by Coolify"
    starting = Deployment.objects.filter(pk=deployment.pk, status=DeploymentStatus.STARTING)
    if starting.update(
        status=to, status_since=Now(), deployment_uuid=uuid, next_try_at=None, reason=reason
    ):
        log_deployment(deployment, to=to, reason=reason, uuid=uuid)


def _try_again_later(context: SlotContext, deployment: Deployment, error: CoolifyError) -> None:
    """An error at the start does not fail the deployment. Its deadline does, or a refusal of this
    very request."""
    if isinstance(error, Refused | NotFound):
        _fail(context, f"Coolify refused the start: {error}", FailureCause.START_REFUSED)
        return
    was_held_back = isinstance(error, BudgetExhausted)
    pause = _pause_after(deployment, error)
    Deployment.objects.filter(pk=deployment.pk, status=DeploymentStatus.STARTING).update(
        next_try_at=Now() + timedelta(seconds=pause),
        reason=str(error),
        # A try that failed before the start call makes the next pause longer, too.
        attempt=Greatest("attempt", deployment.attempt + (not was_held_back)),
    )
    level = logging.DEBUG if was_held_back else logging.WARNING
    logger.log(level, "[Pool] %s: next try in %.0f s: %s", deployment, pause, error)


def _pause_after(deployment: Deployment, error: CoolifyError) -> float:
    return error.retry_after or _backoff(deployment.attempt)


def _backoff(attempt: int) -> float:
    return min(LONGEST_BACKOFF, 2.0 ** min(attempt + 1, 6))


# --- The result -------------------------------------------------------------------------------


def wait_for_deployment(context: SlotContext, deployment: Deployment) -> timedelta:
    """Judge an accepted deployment by the last observation; ask Coolify only if that is unclear."""
    observed_at = context.observed_at
    if observed_at is None or observed_at < deployment.status_since:
        if _is_late(deployment):
            return _judge(context, deployment, Verdict.TIMED_OUT, "Coolify could not be observed")
        return min(CHECK_DEPLOYMENT_AGAIN, max(_time_left(deployment), timedelta(seconds=1)))
    verdict, reason = judge(_evidence(context.slot, deployment))
    try:
        again = _judge(context, deployment, verdict, reason)
    except CoolifyError as error:
        logger.info("[Pool] %s could not be judged: %s", deployment, error)
        pause = timedelta(seconds=error.retry_after or 5.0)
        again = min(pause, max(_time_left(deployment), timedelta(seconds=1)))
    if again != AT_ONCE and _is_late(deployment):
        # Coolify was asked, and its answer decides nothing.
        return _judge(context, deployment, Verdict.TIMED_OUT, f"It took too long: {reason}")
    return again


def _evidence(slot: Slot, deployment: Deployment) -> Evidence:
    now = database_now()
    return Evidence(
        now=now,
        deadline=deployment.deadline or now,
        container=ContainerStatus(slot.container_status),
        application_missing=slot.application_missing,
        server_unreachable=slot.server_unreachable,
        ended_as=deployment.coolify_status,
        ended_at=deployment.coolify_ended_at,
        grace=settings.DEPLOY_GRACE_PERIOD,
    )


def _judge(
    context: SlotContext, deployment: Deployment, verdict: Verdict, reason: str
) -> timedelta:
    match verdict:
        case Verdict.RUNS:
            note_coolify_end(deployment, CoolifyStatus.FINISHED)
            mark_slot_running(context.slot, reason=reason, actor=context.actor)
        case Verdict.ASK_DEPLOYMENT:
            return _ask_how_it_ended(context, deployment)
        case Verdict.ASK_APPLICATION:
            return _ask_for_application(context, deployment)
        case Verdict.DEPLOYMENT_FAILED:
            _fail(context, reason, FailureCause.DEPLOYMENT_FAILED)
        case Verdict.CONTAINER_FAILED:
            _fail(context, reason, FailureCause.CONTAINER_FAILED)
        case Verdict.TIMED_OUT:
            _fail(context, reason, FailureCause.START_TIMED_OUT)
        case _:
            return min(CHECK_DEPLOYMENT_AGAIN, max(_time_left(deployment), timedelta(seconds=1)))
    line_up()  # its build place is free, or its image is warm
    return AT_ONCE


def _ask_how_it_ended(context: SlotContext, deployment: Deployment) -> timedelta:
    until_call = _time_for_a_first_call(context.slot, deployment)
    if until_call > AT_ONCE and pressure() >= 1.0:
        return until_call  # a call of the bot would answer it
    try:
        found = context.coolify.deployment(deployment.deployment_uuid)
    except NotFound:
        return _ask_whether_it_was_made(context, deployment)
    if not found.is_ended:
        return CHECK_DEPLOYMENT_AGAIN  # the next observation wakes it sooner
    note_coolify_end(deployment, found.status)
    return AT_ONCE


def _time_for_a_first_call(slot: Slot, deployment: Deployment) -> timedelta:
    """What is left of the time in which a bot calls after its container has started."""
    seen = slot.container_seen_at
    if seen is None or seen < deployment.status_since:
        return AT_ONCE  # it was over before it was seen
    return seen + FIRST_CALL - database_now()


def _ask_whether_it_was_made(context: SlotContext, deployment: Deployment) -> timedelta:
    try:
        require_no_deployment(context.coolify, context.slot.coolify_uuid)
    except NotFound:
        return _application_is_gone(context, deployment)
    _was_never_accepted(deployment)
    return AT_ONCE


def _was_never_accepted(deployment: Deployment) -> None:
    """Coolify's queue was full, so it dropped the start. Not a failure: try again later."""
    pause = timedelta(seconds=_backoff(deployment.attempt))
    # The queue timeout of its bot still holds. Once that is over, the start is tried again for no
    # longer than a deployment may take.
    give_up_at = F("created_at") + deployment.bot.queue_timeout
    last_try_at = give_up_at + settings.DEPLOY_TIMEOUT
    to = DeploymentStatus.WAITING_FOR_PLACE
    reason = "Coolify accepted the start but made no deployment: its queue was full"
    if Deployment.objects.filter(
        pk=deployment.pk,
        status=DeploymentStatus.IN_PROGRESS,
        deployment_uuid=deployment.deployment_uuid,
    ).update(
        status=to,
        status_since=Now(),
        deployment_uuid="",
        start_asked_at=None,
        building_since=None,
        deadline=Greatest(give_up_at, Least(Now() + 2 * pause, last_try_at)),
        next_try_at=Now() + pause,
        reason=reason,
    ):
        log_deployment(deployment, to=to, reason=reason)


def _ask_for_application(context: SlotContext, deployment: Deployment) -> timedelta:
    try:
        context.coolify.application(context.slot.coolify_uuid)
    except NotFound:
        return _application_is_gone(context, deployment)
    return CHECK_DEPLOYMENT_AGAIN


def _application_is_gone(context: SlotContext, deployment: Deployment) -> timedelta:
    require_gone(context.coolify, context.slot.coolify_uuid)
    note_coolify_end(deployment, "application gone")
    _fail(context, APPLICATION_GONE, FailureCause.APPLICATION_GONE, recreate=True)
    return AT_ONCE


def _fail(
    context: SlotContext, reason: str, cause: FailureCause, *, recreate: bool = False
) -> None:
    """End the start; its bot is placed again at once. The slot's epoch is over: a container that
    comes up late is told to leave before it joins the meeting."""
    logger.warning("[Pool] %s: start failed: %s", context.slot, reason)
    handle_slot_error(context.slot, reason, cause=cause, actor=context.actor, recreate=recreate)
