"""Whether an image is on a server, and whether it is being pulled there: the rule for all pulls."""

from collections import Counter

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from core.clock import database_now
from pool.images.in_use import IS_SURE
from servers.cleanup import trusted_until
from slots.deployment import Deployment, WarmImage
from slots.images import Prepull
from slots.models import Slot
from slots.status import SlotStatus

SAME_IMAGE = {"image": OuterRef("image"), "server_uuid": OuterRef("server_uuid")}


def warm_images() -> QuerySet[WarmImage]:
    """An image that a running container uses is never removed by a clean-up."""
    in_use = Slot.objects.filter(status=SlotStatus.BUSY, **SAME_IMAGE)
    return WarmImage.objects.filter(
        IS_SURE | Exists(in_use),
        warmed_at__gt=Now() - settings.IMAGE_WARM_FOR,
        cold_since__isnull=True,
    )


def is_warm(image: str, server_uuid: str) -> bool:
    return warm_images().filter(image=image, server_uuid=server_uuid).exists()


def is_cleanup_near() -> bool:
    """Around Coolify's clean-up no evidence lasts, and what is pulled may be removed at once."""
    now = database_now()
    times, margin = settings.IMAGE_CLEANUP_TIMES, settings.IMAGE_CLEANUP_MARGIN
    return trusted_until(now, times=times, margin=margin) <= now


def is_pulled_by_bot(image: str, server_uuid: str) -> bool:
    pulls = Deployment.objects.filter(pulling=True, image=image, server_uuid=server_uuid)
    return pulls.exists()


def builds_by_server(starts: QuerySet[Deployment]) -> Counter[str]:
    """The build places that these starts and the pre-pulls take, in one query."""
    prepulls = Prepull.objects.filter(pulling=True).values_list("server_uuid", flat=True)
    return Counter(starts.values_list("server_uuid", flat=True).union(prepulls, all=True))


def being_pulled() -> Q:
    """For deployments and pre-pulls: whether another one pulls the same image on their server."""
    by_bot = Deployment.objects.filter(pulling=True, **SAME_IMAGE)
    return Q(Exists(by_bot)) | Q(being_prepulled())


def being_prepulled() -> Exists:
    return Exists(Prepull.objects.filter(pulling=True, **SAME_IMAGE))
