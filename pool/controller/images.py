"""The image rule: a cold image is pulled by one deployment, its leader; the others wait for it.

Who leads is decided by the constraint `one_puller_per_image_and_server`, not by who asks first.
The leader stays the puller until Coolify is known to have ended its deployment, also where the
slot has long moved on, so that the next one does not pull beside it.
"""

import logging
import re
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from core.clock import database_now
from slots.correlation import story_of
from slots.deployment import ACTIVE, Deployment, DeploymentStatus, WarmImage

logger = logging.getLogger(__name__)

# A tag that looks like a version or a hash. Any other may name another image tomorrow.
_PINNED = re.compile(r":[^/:]*(\d+\.\d+|[0-9a-f]{7,})[^/:]*$")

_SAME_IMAGE = {"image": OuterRef("image"), "server_uuid": OuterRef("server_uuid")}


def let_warm_ones_through() -> int:
    """Deployments whose image lies on their server wait for it no longer."""
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
    """For each cold image that nobody pulls, let the first in line pull it."""
    firsts = (
        # Those that came since the warm ones were let through may be warm, too.
        _waiting()
        .filter(~_is_pulled(), ~_is_warm())
        .select_related("bot")
        .order_by("image", "server_uuid", "id")
        .distinct("image", "server_uuid")
    )
    return sum(lead(deployment) for deployment in firsts)


def lead(deployment: Deployment) -> bool:
    """Make it the puller of its image; False if there is one, or it waits no more."""
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
                    reason="Pulls the image for all that wait for it",
                )
            )
    except IntegrityError:
        return False  # another pass has just chosen another leader
    if led:
        with story_of(deployment):
            logger.info(
                "[Pool] %s leads the pull of %s on server %s",
                deployment,
                deployment.image,
                deployment.server_uuid,
            )
    return bool(led)


def note_who_waits() -> None:
    """Those whose image is being pulled: say so, once, and count the pull they save."""
    _waiting().filter(_is_pulled(), ~_is_warm(), waited_for_image=False).update(
        waited_for_image=True, reason="Another deployment pulls the image"
    )


def mark_image_warm(deployment: Deployment) -> None:
    """The deployment has finished, so the image lies on its server.

    A moving tag stays warm only for a time after it was pulled by a leader, however much it is
    used: what it names may have changed since. A pinned one is warm for as long as it is used.
    """
    warm, made = WarmImage.objects.get_or_create(
        image=deployment.image, server_uuid=deployment.server_uuid
    )
    if not made and (deployment.leader or _PINNED.search(deployment.image)):
        WarmImage.objects.filter(pk=warm.pk).update(warmed_at=Now())


def settle_pulls() -> None:
    """Leaders whose slot has moved on: one whose bot called from its container has pulled the
    image, and one whose start was never asked for never will. Of others Coolify has to be asked
    (deployments.py), for as long as a deployment may take: some hang in Coolify for ever and
    cannot be cancelled, and a second pull beside such a one is better than none."""
    now = database_now()
    for deployment in pulls_of_the_past():
        if deployment.status == DeploymentStatus.FINISHED:
            mark_image_warm(deployment)
            let_go_of_pull(deployment)
        elif deployment.start_asked_at is None:
            let_go_of_pull(deployment)
        elif now - (deployment.building_since or deployment.start_asked_at) > _longest_pull():
            with story_of(deployment):
                logger.warning("[Pool] %s still pulls in Coolify: waited for no longer", deployment)
            let_go_of_pull(deployment)


def _longest_pull() -> timedelta:
    longest: timedelta = settings.DEPLOY_TIMEOUT + settings.DEPLOY_GRACE_PERIOD
    return longest


def pulls_of_the_past() -> QuerySet[Deployment]:
    return Deployment.objects.filter(pulling=True).exclude(status__in=ACTIVE)


def let_go_of_pull(deployment: Deployment) -> None:
    """Coolify has ended this deployment: it pulls no more, and another may."""
    Deployment.objects.filter(pk=deployment.pk, pulling=True).update(pulling=False)


def forget_warm_image(deployment: Deployment) -> None:
    """A pull failed although the image was thought to be there: the next one pulls alone."""
    WarmImage.objects.filter(image=deployment.image, server_uuid=deployment.server_uuid).delete()


def _waiting() -> QuerySet[Deployment]:
    return Deployment.objects.filter(status=DeploymentStatus.WAITING_FOR_IMAGE)


def _is_warm() -> Exists:
    warmed_at = Now() - settings.IMAGE_WARM_FOR
    return Exists(WarmImage.objects.filter(warmed_at__gt=warmed_at, **_SAME_IMAGE))


def _is_pulled() -> Exists:
    return Exists(Deployment.objects.filter(pulling=True, **_SAME_IMAGE))
