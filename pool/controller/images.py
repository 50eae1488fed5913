"""The image rule: a cold image is pulled by one deployment, its leader; the others wait for it.

The constraint `one_puller_per_image_and_server` decides who leads. The leader stays the puller
until Coolify is known to have ended its deployment, even if its slot has moved on: no second pull
starts beside it.
"""

import logging
import re
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, Q, QuerySet
from django.db.models.functions import Now

from coolify.client.resources import DeploymentStatus as CoolifyStatus
from core.clock import database_now
from core.locks import advisory_lock
from pool.images.warmth import SAME_IMAGE, being_prepulled, being_pulled, warm_images
from pool.lock_names import PULL_IMAGE
from servers.cleanup import trusted_until
from slots.correlation import as_bot_of
from slots.deployment import ACTIVE, Deployment, DeploymentStatus, WarmImage
from slots.history import log_deployment

logger = logging.getLogger(__name__)

# A tag that contains a version or a hash. Any other tag may name a different image tomorrow.
_PINNED = re.compile(r":[^/:]*(\d+\.\d+|[0-9a-f]{7,})[^/:]*$")

LEADS = "Pulls the image for all deployments that wait for it"


def any_waits_for_image() -> bool:
    return _waiting().exists()


def let_warm_ones_through() -> list[int]:
    """Deployments whose image is on their server stop waiting for it; returns their ids."""
    warm = list(_waiting().filter(_is_warm()).select_related("bot"))
    to, reason = DeploymentStatus.WAITING_FOR_PLACE, "The image is warm"
    ids = [deployment.pk for deployment in warm]
    if ids:
        still_waiting = _waiting().filter(pk__in=ids)
        still_waiting.update(status=to, status_since=Now(), image_at=Now(), reason=reason)
    for deployment in warm:
        with as_bot_of(deployment):
            log_deployment(deployment, to=to, reason=reason)
    return ids


def choose_leaders() -> int:
    """For each cold image without a puller, let the first in line pull it."""
    firsts = (
        # The image of a deployment that was added in between may be warm.
        _waiting()
        .filter(~being_pulled(), ~_is_warm())
        .select_related("bot")
        .order_by("image", "server_uuid", "turn", "id")
        .distinct("image", "server_uuid")
    )
    return sum(lead(deployment) for deployment in firsts)


def lead(deployment: Deployment) -> bool:
    """Make it the puller of its image; False if there is one, or it no longer waits."""
    try:
        with transaction.atomic():
            # No pre-pull begins in between.
            advisory_lock(PULL_IMAGE.format(image=deployment.image, server=deployment.server_uuid))
            led = (
                _waiting()
                .filter(~Q(being_prepulled()), pk=deployment.pk, image=deployment.image)
                .update(
                    leader=True,
                    pulling=True,
                    status=DeploymentStatus.WAITING_FOR_PLACE,
                    status_since=Now(),
                    image_at=Now(),
                    reason=LEADS,
                )
            )
    except IntegrityError:
        return False  # another process has just chosen a leader
    if led:
        with as_bot_of(deployment):
            log_deployment(deployment, to=DeploymentStatus.WAITING_FOR_PLACE, reason=LEADS)
    return bool(led)


def note_who_waits() -> None:
    """Mark deployments whose image another one pulls: each saves a pull of its own."""
    _waiting().filter(being_pulled(), ~_is_warm(), waited_for_image=False).update(
        waited_for_image=True, reason="Another deployment is pulling the image"
    )


def note_coolify_end(deployment: Deployment, ended_as: str) -> None:
    """Coolify has ended this deployment: another may pull the image, or start."""
    this_start = {"pk": deployment.pk, "deployment_uuid": deployment.deployment_uuid}
    if not Deployment.objects.filter(**this_start).update(
        coolify_status=ended_as, coolify_ended_at=Now()
    ):
        return  # it has been started again since
    if ended_as == CoolifyStatus.FINISHED:
        mark_image_warm(deployment)
    elif ended_as == CoolifyStatus.FAILED:
        # It may have failed because the image is gone: the next one pulls alone.
        words = f"A start in {deployment.slot_name} failed"
        mark_image_cold(deployment.image, deployment.server_uuid, reason=words)
    let_go_of_pull(deployment)


def mark_image_warm(deployment: Deployment) -> None:
    """The deployment has finished, so the image is on its server."""
    evidence = WarmImage.Evidence.PULL if deployment.leader else WarmImage.Evidence.START
    note_image(deployment.image, deployment.server_uuid, evidence=evidence)


def note_image(image: str, server_uuid: str, *, evidence: WarmImage.Evidence) -> None:
    """The image is on this server.

    A moving tag stays warm only for a time after it was pulled, however much it is used: it may
    name a different image by now. A pinned tag stays warm for as long as it is used.
    """
    now = database_now()
    warm, made = WarmImage.objects.get_or_create(image=image, server_uuid=server_uuid)
    if evidence == WarmImage.Evidence.START and warm.cold_since is not None:
        evidence = WarmImage.Evidence.PULL
    was_pulled = evidence in (WarmImage.Evidence.PULL, WarmImage.Evidence.PREPULL)
    pulled = made or was_pulled or _PINNED.search(image)
    WarmImage.objects.filter(pk=warm.pk).update(
        evidence=evidence,
        confirmed_at=now,
        trusted_until=trusted_until(
            now, times=settings.IMAGE_CLEANUP_TIMES, margin=settings.IMAGE_CLEANUP_MARGIN
        ),
        cold_since=None,
        cold_reason="",
        **({"warmed_at": now} if pulled else {}),
    )


# --- When an image is no longer believed to be there -------------------------------------------


def mark_image_cold(image: str, server_uuid: str, *, reason: str) -> bool:
    """The next deployment pulls it alone, and the others wait; False if it was not warm."""
    warm = WarmImage.objects.filter(image=image, server_uuid=server_uuid, cold_since__isnull=True)
    marked = bool(warm.update(cold_since=Now(), cold_reason=reason))
    if marked:
        logger.info("[Images] %s on server %s is cold: %s", image, server_uuid, reason)
    return marked


def doubt_images(server_uuid: str) -> int:
    """A clean-up ran on this server: only images that a running container uses are sure."""
    on_server = WarmImage.objects.filter(server_uuid=server_uuid, cold_since__isnull=True)
    return on_server.update(trusted_until=Now())


def notice_pulls() -> None:
    """A start that was thought to find its image, and builds for much longer than that takes, pulls
    it. It becomes the puller, so that no other start pulls beside it."""
    since = Now() - settings.UNEXPECTED_PULL_AFTER
    building = Deployment.objects.filter(
        status=DeploymentStatus.IN_PROGRESS,
        pulling=False,
        queued_in_coolify=False,
        coolify_ended_at__isnull=True,
        building_since__lt=since,
    )
    for deployment in building.filter(_is_warm(), ~being_pulled()).order_by("building_since"):
        reason = f"A start in {deployment.slot_name} takes as long as a pull"
        if mark_image_cold(deployment.image, deployment.server_uuid, reason=reason):
            _become_puller(deployment)


def _become_puller(deployment: Deployment) -> None:
    try:
        with transaction.atomic():
            still = Deployment.objects.filter(pk=deployment.pk, coolify_ended_at__isnull=True)
            still.update(leader=True, pulling=True)
    except IntegrityError:
        return  # another process has just chosen a leader


# --- Pulls of the past -------------------------------------------------------------------------


def settle_pulls() -> None:
    """Settle the pulls of leaders whose slot has moved on.

    A leader that finished has pulled the image; one that was never started never will. The others
    are cancelled by their slot's teardown. Some hang in Coolify for ever: after the longest time
    that a pull may take, a second pull beside them is better than none.
    """
    now = database_now()
    for deployment in pulls_of_the_past():
        if deployment.status == DeploymentStatus.FINISHED:
            mark_image_warm(deployment)
            let_go_of_pull(deployment)
        elif deployment.start_asked_at is None:
            let_go_of_pull(deployment)
        elif now - (deployment.building_since or deployment.start_asked_at) > _longest_pull():
            with as_bot_of(deployment):
                logger.warning("[Pool] %s hangs in Coolify: another may pull its image", deployment)
            let_go_of_pull(deployment)


def _longest_pull() -> timedelta:
    longest: timedelta = settings.DEPLOY_TIMEOUT + settings.DEPLOY_GRACE_PERIOD
    return longest


def pulls_of_the_past() -> QuerySet[Deployment]:
    return Deployment.objects.filter(pulling=True).exclude(status__in=ACTIVE)


def let_go_of_pull(deployment: Deployment) -> None:
    """This deployment no longer pulls its image: another may."""
    Deployment.objects.filter(pk=deployment.pk, pulling=True).update(pulling=False)


def _waiting() -> QuerySet[Deployment]:
    return Deployment.objects.filter(status=DeploymentStatus.WAITING_FOR_IMAGE)


def _is_warm() -> Exists:
    return Exists(warm_images().filter(**SAME_IMAGE))
