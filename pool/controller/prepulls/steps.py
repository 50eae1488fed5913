"""One pre-pull in Coolify: an application of its own is made, started, and deleted afterwards.

The image runs without BOT_DATA, so a bot exits at once; see docs/bots.md. The application's name
belongs to this pre-pull alone, so a worker that takes over finds it after a lost answer.
"""

from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now

from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotAccepted, NotFound, Refused
from coolify.client.image import Image
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from core.clock import database_now, on_this_hosts_clock
from pool.controller.applications import our_environment
from pool.controller.belief.answers import believed_list, require_gone, require_no_deployment
from pool.controller.images import note_image
from pool.images.prepulls import end_prepull, log_prepull, say
from servers.health import IN_SERVICE
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import UNDER_WAY, Prepull, PrepullStatus

SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=1)
# Then its application is left to the reconciler, which reports it as an orphan.
REMOVAL_PATIENCE = timedelta(hours=1)


def application_name(prepull: Prepull) -> str:
    return f"{settings.SLOT_NAME_PREFIX}-warmer-{prepull.pk}"


def advance_prepull(prepull: Prepull, coolify: Coolify) -> None:
    """The next step of one that is under way. After an error it is tried again, in its time."""
    if database_now() > prepull.deadline:
        was_pulling = prepull.status == PrepullStatus.PULLING
        status = _fault(prepull) if was_pulling else PrepullStatus.GIVEN_UP
        end_prepull(prepull, status, f"It took too long. {prepull.detail}")
        return
    try:
        if prepull.status == PrepullStatus.STARTING:
            _start(prepull, coolify)
        else:
            _judge(prepull, coolify)
    except CoolifyError as error:
        _try_again(prepull, error)


def _fault(prepull: Prepull) -> PrepullStatus:
    """Failed, unless the server went away: that says nothing about the image."""
    away = Server.objects.filter(uuid=prepull.server_uuid).exclude(state__in=IN_SERVICE)
    return PrepullStatus.GIVEN_UP if away.exists() else PrepullStatus.FAILED


def _try_again(prepull: Prepull, error: CoolifyError) -> None:
    """What Coolify reads and refuses, such as the name of an image, fails at once."""
    if isinstance(error, Refused) and not prepull.deployment_uuid:
        end_prepull(prepull, PrepullStatus.FAILED, f"Coolify refused it: {error}")
        return
    say(prepull, f"Tried again after: {error}")
    _pause(prepull, error)


def _pause(prepull: Prepull, error: CoolifyError) -> None:
    lasted = database_now() - prepull.status_since
    pause = max(SHORTEST_PAUSE, min(lasted / 4, LONGEST_PAUSE))
    if error.retry_after:
        pause = timedelta(seconds=error.retry_after)
    Prepull.objects.filter(pk=prepull.pk).update(next_try_at=Now() + pause)


# --- The start ---------------------------------------------------------------------------------


def _start(prepull: Prepull, coolify: Coolify) -> None:
    if not prepull.coolify_uuid:
        uuid = find_application(prepull, coolify) or _create(prepull, coolify)
        _note(prepull, coolify_uuid=uuid)
    if not _move(prepull, detail="Its deployment is started"):
        return
    try:
        uuid = _earlier_start(prepull, coolify) or _new_start(prepull, coolify)
    except NotFound:
        _lose_application(prepull, coolify)
        return
    # Noted even if it was cancelled meanwhile: then it is cancelled in Coolify by this.
    _note(prepull, deployment_uuid=uuid)
    _move(
        prepull,
        status=PrepullStatus.PULLING,
        status_since=Now(),
        deadline=Now() + settings.DEPLOY_TIMEOUT,
        next_try_at=Now() + settings.DEPLOY_POLL_INTERVAL,
        detail="Coolify pulls the image",
    )


def _lose_application(prepull: Prepull, coolify: Coolify) -> None:
    """It was deleted in Coolify, and its deployment with it: the next pass makes another."""
    require_gone(coolify, prepull.coolify_uuid)
    _note(prepull, coolify_uuid="", application_asked_at=None, start_asked_at=None)
    say(prepull, "Its application was deleted in Coolify: another one is made")


def find_application(prepull: Prepull, coolify: Coolify) -> str:
    """The application of an earlier try whose answer was lost; empty if there is none. Another
    Botpool may use the same name in another environment."""
    if prepull.application_asked_at is None:
        return ""
    environment, name = our_environment(coolify), application_name(prepull)
    if environment is None:
        return ""
    found = [app for app in believed_list(coolify) if app.name == name]
    return next((app.uuid for app in found if app.environment_id == environment), "")


def _create(prepull: Prepull, coolify: Coolify) -> str:
    # Recorded before the call: a worker that takes over then knows that it may have been made.
    _note(prepull, application_asked_at=database_now())
    try:
        return coolify.create_application(
            project_uuid=settings.COOLIFY_PROJECT_UUID,
            server_uuid=prepull.server_uuid,
            environment_name=settings.COOLIFY_ENVIRONMENT_NAME,
            destination_uuid=settings.COOLIFY_DESTINATION_UUID or None,
            image=Image.parse(prepull.image),
            name=application_name(prepull),
            description="Botpool pulls an image beforehand; this application is then deleted",
        ).uuid
    except CoolifyError as error:
        if not error.maybe_done:
            _note(prepull, application_asked_at=None)
        raise


def _earlier_start(prepull: Prepull, coolify: Coolify) -> str:
    if prepull.start_asked_at is None:
        return ""
    since = on_this_hosts_clock(prepull.start_asked_at)
    try:
        return coolify.resolve_start(prepull.coolify_uuid, since=since).uuid
    except NotAccepted:
        return ""


def _new_start(prepull: Prepull, coolify: Coolify) -> str:
    asked_at = prepull.start_asked_at or database_now()
    _note(prepull, start_asked_at=asked_at)
    answer = coolify.start(prepull.coolify_uuid)
    since = on_this_hosts_clock(asked_at)
    return answer.deployment_uuid or coolify.resolve_start(prepull.coolify_uuid, since=since).uuid


# --- Its result --------------------------------------------------------------------------------


def _judge(prepull: Prepull, coolify: Coolify) -> None:
    try:
        found = coolify.deployment(prepull.deployment_uuid)
    except NotFound:
        _start_again(prepull, coolify)
        return
    if not found.is_ended:
        _note(prepull, next_try_at=Now() + settings.DEPLOY_POLL_INTERVAL)
        return
    if found.status == CoolifyStatus.FINISHED:
        evidence = WarmImage.Evidence.PREPULL
        note_image(prepull.image, prepull.server_uuid, evidence=evidence)
        end_prepull(prepull, PrepullStatus.DONE, "The image is there")
    else:
        detail = f"Coolify's deployment ended as {found.status}: is there such an image?"
        end_prepull(prepull, _fault(prepull), detail)
    _note(prepull, pulling=False)


def _start_again(prepull: Prepull, coolify: Coolify) -> None:
    """Coolify's queue was full, so it dropped the start; or the application was deleted."""
    try:
        require_no_deployment(coolify, prepull.coolify_uuid)
    except NotFound:
        _lose_application(prepull, coolify)
    else:
        say(prepull, "Coolify accepted the start but made no deployment: its queue was full")
    _move(
        prepull,
        status=PrepullStatus.STARTING,
        deployment_uuid="",
        start_asked_at=None,
        next_try_at=Now() + LONGEST_PAUSE,
    )


# --- Afterwards --------------------------------------------------------------------------------


def remove_application(prepull: Prepull, coolify: Coolify) -> None:
    """Delete the application of one that is over, and its container with it."""
    try:
        uuid = prepull.coolify_uuid or find_application(prepull, coolify)
        if uuid:
            _note(prepull, coolify_uuid=uuid)
            _cancel(prepull, coolify)
            _delete(uuid, coolify)
    except CoolifyError as error:
        if _is_out_of_patience(prepull):
            log_prepull(prepull, f"its application {prepull.coolify_uuid} is left behind: {error}")
            _forget(prepull)
        else:
            _pause(prepull, error)
        return
    _forget(prepull)


def _cancel(prepull: Prepull, coolify: Coolify) -> None:
    """A deployment that still runs would pull on, beside the next one."""
    if not prepull.pulling or prepull.start_asked_at is None:
        return
    since = on_this_hosts_clock(prepull.start_asked_at)
    try:
        uuid = (
            prepull.deployment_uuid or coolify.resolve_start(prepull.coolify_uuid, since=since).uuid
        )
        coolify.cancel_deployment(uuid)
    except NotAccepted:
        pass  # nothing was started
    except NotFound:
        _require_no_pull(prepull, coolify)
    _note(prepull, pulling=False)


def _require_no_pull(prepull: Prepull, coolify: Coolify) -> None:
    """Raises a CoolifyError unless Coolify may be believed that it has no such deployment."""
    try:
        require_no_deployment(coolify, prepull.coolify_uuid)
    except NotFound:
        require_gone(coolify, prepull.coolify_uuid)


def _delete(uuid: str, coolify: Coolify) -> None:
    try:
        coolify.delete_application(uuid)
    except NotFound:
        require_gone(coolify, uuid)


def _is_out_of_patience(prepull: Prepull) -> bool:
    ended_at = prepull.ended_at or database_now()
    return database_now() - ended_at > REMOVAL_PATIENCE


def _forget(prepull: Prepull) -> None:
    _note(prepull, coolify_uuid="", application_asked_at=None, pulling=False, next_try_at=None)


def _note(prepull: Prepull, **fields: object) -> None:
    Prepull.objects.filter(pk=prepull.pk).update(**fields)
    prepull.refresh_from_db()


def _move(prepull: Prepull, **fields: object) -> bool:
    """False if it is over: it may be cancelled during a call to Coolify."""
    moved = Prepull.objects.filter(pk=prepull.pk, status__in=UNDER_WAY).update(**fields)
    prepull.refresh_from_db()
    return bool(moved)
