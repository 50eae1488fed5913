"""One pre-pull in Coolify: an application of its own is made, started, and deleted afterwards.

The image runs without BOT_DATA, so a bot exits at once; see docs/bots.md. The application's name
belongs to this pre-pull alone, so a worker that takes over finds it after a lost answer. A worker
that was frozen for longer than its lease gets LeaseLost before it does anything more.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotAccepted, NotFound, Refused
from coolify.client.image import Image
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from core.clock import database_now, on_this_hosts_clock
from core.leases import HeldLease
from pool.controller.applications import our_environment
from pool.controller.belief.answers import believed_list, require_gone, require_no_deployment
from pool.controller.context import LONGEST_PAUSE, pause_after_error
from pool.controller.images import note_image
from pool.images.prepulls import end_prepull, log_prepull
from servers.health import IN_SERVICE
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import UNDER_WAY, Prepull, PrepullStatus

# Then its application is left to the reconciler, which reports it as an orphan.
REMOVAL_PATIENCE = timedelta(hours=1)


@dataclass
class PrepullContext:
    prepull: Prepull
    lease: HeldLease
    coolify: Coolify

    def note(self, **fields: object) -> None:
        with self.lease.fenced():
            Prepull.objects.filter(pk=self.prepull.pk).update(**fields)
        self.prepull.refresh_from_db()

    def move(self, **fields: object) -> bool:
        """False if it is over: it may be cancelled during a call to Coolify."""
        with self.lease.fenced():
            same = Prepull.objects.filter(pk=self.prepull.pk, status__in=UNDER_WAY)
            moved = same.update(**fields)
        self.prepull.refresh_from_db()
        return bool(moved)

    def end(self, status: PrepullStatus, detail: str) -> None:
        with self.lease.fenced():
            end_prepull(self.prepull, status, detail)


def application_name(prepull: Prepull) -> str:
    return f"{settings.SLOT_NAME_PREFIX}-warmer-{prepull.pk}"


def advance_prepull(context: PrepullContext) -> None:
    """The next step of one that is under way. After an error it is tried again, in its time."""
    prepull = context.prepull
    if database_now() > prepull.deadline:
        was_pulling = prepull.status == PrepullStatus.PULLING
        status = _fault(prepull) if was_pulling else PrepullStatus.GIVEN_UP
        context.end(status, f"It took too long. {prepull.detail}")
        return
    try:
        if prepull.deployment_uuid:
            _judge(context)
        else:
            _start(context)
    except CoolifyError as error:
        _try_again(context, error)


def _fault(prepull: Prepull) -> PrepullStatus:
    """Failed, unless the server went away: that says nothing about the image."""
    away = Server.objects.filter(uuid=prepull.server_uuid).exclude(state__in=IN_SERVICE)
    return PrepullStatus.GIVEN_UP if away.exists() else PrepullStatus.FAILED


def _try_again(context: PrepullContext, error: CoolifyError) -> None:
    """What Coolify reads and refuses, such as the name of an image, fails at once."""
    if isinstance(error, Refused) and not context.prepull.deployment_uuid:
        context.end(PrepullStatus.FAILED, f"Coolify refused it: {error}")
        return
    context.note(detail=f"Tried again after: {error}")
    _pause(context, error)


def _pause(context: PrepullContext, error: CoolifyError) -> None:
    pause = pause_after_error(error, since=context.prepull.status_since)
    context.note(next_try_at=Now() + pause)


# --- The start ---------------------------------------------------------------------------------


def _start(context: PrepullContext) -> None:
    if not context.prepull.coolify_uuid:
        context.note(coolify_uuid=find_application(context) or _create(context))
    if not context.move(detail="Its deployment is started"):
        return
    try:
        uuid = _earlier_start(context) or _new_start(context)
    except NotFound:
        _lose_application(context)
        return
    # Noted even if it was cancelled meanwhile: then it is cancelled in Coolify by this.
    context.note(deployment_uuid=uuid)
    # The wait in Coolify's own queue is not the image's fault. It is bounded all the same: Coolify
    # sometimes forgets a deployment there.
    context.move(
        deadline=F("status_since") + 2 * settings.DEPLOY_TIMEOUT,
        next_try_at=Now() + settings.COOLIFY_PROBE_PAUSE,
        detail="Waits in Coolify's own queue",
    )


def _lose_application(context: PrepullContext) -> None:
    """It was deleted in Coolify, and its deployment with it: the next pass makes another."""
    require_gone(context.coolify, context.prepull.coolify_uuid)
    context.note(
        coolify_uuid="",
        application_asked_at=None,
        start_asked_at=None,
        detail="Its application was deleted in Coolify: another one is made",
    )


def find_application(context: PrepullContext) -> str:
    """The application of an earlier try whose answer was lost; empty if there is none. Another
    Botpool may use the same name in another environment."""
    prepull, coolify = context.prepull, context.coolify
    if prepull.application_asked_at is None:
        return ""
    environment, name = our_environment(coolify), application_name(prepull)
    if environment is None:
        return ""
    found = [app for app in believed_list(coolify) if app.name == name]
    return next((app.uuid for app in found if app.environment_id == environment), "")


def _create(context: PrepullContext) -> str:
    # Recorded before the call: a worker that takes over then knows that it may have been made.
    context.note(application_asked_at=database_now())
    context.lease.check()
    try:
        return context.coolify.create_application(
            project_uuid=settings.COOLIFY_PROJECT_UUID,
            server_uuid=context.prepull.server_uuid,
            environment_name=settings.COOLIFY_ENVIRONMENT_NAME,
            destination_uuid=settings.COOLIFY_DESTINATION_UUID or None,
            image=Image.parse(context.prepull.image),
            name=application_name(context.prepull),
            description="Botpool pulls an image beforehand; this application is then deleted",
        ).uuid
    except CoolifyError as error:
        if not error.maybe_done:
            context.note(application_asked_at=None)
        raise


def _earlier_start(context: PrepullContext) -> str:
    prepull = context.prepull
    if prepull.start_asked_at is None:
        return ""
    since = on_this_hosts_clock(prepull.start_asked_at)
    try:
        return context.coolify.resolve_start(prepull.coolify_uuid, since=since).uuid
    except NotAccepted:
        return ""


def _new_start(context: PrepullContext) -> str:
    uuid, asked_at = context.prepull.coolify_uuid, context.prepull.start_asked_at or database_now()
    context.note(start_asked_at=asked_at)
    context.lease.check()
    answer = context.coolify.start(uuid)
    since = on_this_hosts_clock(asked_at)
    return answer.deployment_uuid or context.coolify.resolve_start(uuid, since=since).uuid


# --- Its result --------------------------------------------------------------------------------


def _judge(context: PrepullContext) -> None:
    try:
        found = context.coolify.deployment(context.prepull.deployment_uuid)
    except NotFound:
        _start_again(context)
        return
    if found.is_ended:
        _settle(context, found.status)
    elif found.status == CoolifyStatus.IN_PROGRESS:
        _note_that_it_pulls(context)
    else:
        context.note(next_try_at=Now() + settings.DEPLOY_POLL_INTERVAL)


def _note_that_it_pulls(context: PrepullContext) -> None:
    """From here on its time counts."""
    begins = {
        "status": PrepullStatus.PULLING,
        "status_since": Now(),
        "deadline": Now() + settings.DEPLOY_TIMEOUT,
        "detail": "Coolify pulls the image",
    }
    was_pulling = context.prepull.status == PrepullStatus.PULLING
    again_at = Now() + settings.DEPLOY_POLL_INTERVAL
    context.move(next_try_at=again_at, **({} if was_pulling else begins))


def _settle(context: PrepullContext, ended_as: str) -> None:
    prepull = context.prepull
    with context.lease.fenced():
        if ended_as == CoolifyStatus.FINISHED:
            evidence = WarmImage.Evidence.PREPULL
            note_image(prepull.image, prepull.server_uuid, evidence=evidence)
            context.end(PrepullStatus.DONE, "The image is there")
        else:
            detail = f"Coolify's deployment ended as {ended_as}: is there such an image?"
            context.end(_fault(prepull), detail)
        context.note(pulling=False)


def _start_again(context: PrepullContext) -> None:
    """Coolify's queue was full, so it dropped the start; or the application was deleted."""
    try:
        require_no_deployment(context.coolify, context.prepull.coolify_uuid)
    except NotFound:
        _lose_application(context)
    else:
        words = "Coolify accepted the start but made no deployment: its queue was full"
        context.note(detail=words)
    context.move(
        status=PrepullStatus.STARTING,
        deployment_uuid="",
        start_asked_at=None,
        next_try_at=Now() + LONGEST_PAUSE * settings.COOLIFY_PROBE_PAUSE,
    )


# --- Afterwards --------------------------------------------------------------------------------


def remove_application(context: PrepullContext) -> None:
    """Delete the application of one that is over, and its container with it."""
    prepull = context.prepull
    try:
        uuid = prepull.coolify_uuid or find_application(context)
        if uuid:
            context.note(coolify_uuid=uuid)
            _cancel(context)
            _delete(context)
    except CoolifyError as error:
        if _is_out_of_patience(prepull):
            log_prepull(prepull, f"its application {prepull.coolify_uuid} is left behind: {error}")
            _forget(context)
        else:
            _pause(context, error)
        return
    _forget(context)


def _cancel(context: PrepullContext) -> None:
    """A deployment that still runs would pull on, beside the next one."""
    prepull, coolify = context.prepull, context.coolify
    if not prepull.pulling or prepull.start_asked_at is None:
        return
    since = on_this_hosts_clock(prepull.start_asked_at)
    try:
        uuid = (
            prepull.deployment_uuid or coolify.resolve_start(prepull.coolify_uuid, since=since).uuid
        )
        context.lease.check()
        coolify.cancel_deployment(uuid)
    except NotAccepted:
        pass  # nothing was started
    except NotFound:
        _require_no_pull(context)
    context.note(pulling=False)


def _require_no_pull(context: PrepullContext) -> None:
    """Raises a CoolifyError unless Coolify may be believed that it has no such deployment."""
    uuid = context.prepull.coolify_uuid
    try:
        require_no_deployment(context.coolify, uuid)
    except NotFound:
        require_gone(context.coolify, uuid)


def _delete(context: PrepullContext) -> None:
    uuid = context.prepull.coolify_uuid
    context.lease.check()
    try:
        context.coolify.delete_application(uuid)
    except NotFound:
        require_gone(context.coolify, uuid)


def _is_out_of_patience(prepull: Prepull) -> bool:
    ended_at = prepull.ended_at or database_now()
    return database_now() - ended_at > REMOVAL_PATIENCE


def _forget(context: PrepullContext) -> None:
    context.note(coolify_uuid="", application_asked_at=None, pulling=False, next_try_at=None)
