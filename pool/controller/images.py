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
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from coolify.client.resources import DeploymentStatus as CoolifyStatus
from core.clock import database_now
from slots.correlation import as_bot_of
from slots.deployment import ACTIVE, Deployment, DeploymentStatus, WarmImage

logger = logging.getLogger(__name__)

# A tag that contains a version or a hash. Any other tag may name a different image tomorrow.
_PINNED = re.compile(r":[^/:]*(\d+\.\d+|[0-9a-f]{7,})[^/:]*$")

_SAME_IMAGE = {"image": OuterRef("image"), "server_uuid": OuterRef("server_uuid")}


def let_warm_ones_through() -> int:
    """Deployments whose image is on their server stop waiting for it."""
    return (
        _waiting()
        .filter(_is_warm())
        .update(
            status=DeploymentStatus.WAITING_FOR_PLACE,
            status_since=Now(),
            reason="The image is warm",
        )
    )


def choose_leaders() -> int:
    """For each cold image without a puller, let the first in line pull it."""
    firsts = (
        # The image of a deployment that was added in between may be warm.
        _waiting()
        .filter(~_is_pulled(), ~_is_warm())
        .select_related("bot")
        .order_by("image", "server_uuid", "turn", "id")
        .distinct("image", "server_uuid")
    )
    return sum(lead(deployment) for deployment in firsts)


def lead(deployment: Deployment) -> bool:
    """Make it the puller of its image; False if there is one, or it no longer waits."""
    try:
        with transaction.atomic():
            led = (
                _waiting()
                .filter(pk=deployment.pk)
                .update(
                    leader=True,
                    pulling=True,
                    status=DeploymentStatus.WAITING_FOR_PLACE,
                    status_since=Now(),
                    reason="Pulls the image for all deployments that wait for it",
                )
            )
    except IntegrityError:
        return False  # another process has just chosen a leader
    if led:
        with as_bot_of(deployment):
            logger.info(
                "[Pool] %s leads the pull of %s on server %s",
                deployment,
                deployment.image,
                deployment.server_uuid,
            )
    return bool(led)


def note_who_waits() -> None:
    """Mark deployments whose image another one pulls: each saves a pull of its own."""
    _waiting().filter(_is_pulled(), ~_is_warm(), waited_for_image=False).update(
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
        forget_warm_image(deployment)
    let_go_of_pull(deployment)


def mark_image_warm(deployment: Deployment) -> None:
    """The deployment has finished, so the image is on its server.

    A moving tag stays warm only for a time after a leader pulled it, however much it is used: it
    may name a different image by now. A pinned tag stays warm for as long as it is used.
    """
    warm, made = WarmImage.objects.get_or_create(
        image=deployment.image, server_uuid=deployment.server_uuid
    )
    if not made and (deployment.leader or _PINNED.search(deployment.image)):
        WarmImage.objects.filter(pk=warm.pk).update(warmed_at=Now())


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


def forget_warm_image(deployment: Deployment) -> None:
    """A deployment failed although its image was thought to be there: the next one pulls alone."""
    WarmImage.objects.filter(image=deployment.image, server_uuid=deployment.server_uuid).delete()


def _waiting() -> QuerySet[Deployment]:
    return Deployment.objects.filter(status=DeploymentStatus.WAITING_FOR_IMAGE)


def _is_warm() -> Exists:
    warmed_at = Now() - settings.IMAGE_WARM_FOR
    return Exists(WarmImage.objects.filter(warmed_at__gt=warmed_at, **_SAME_IMAGE))


def _is_pulled() -> Exists:
    return Exists(Deployment.objects.filter(pulling=True, **_SAME_IMAGE))
