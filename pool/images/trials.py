"""What is known of a wanted image: whether any server could pull it, and which could not.

Both pre-pulls and bots pull. A start that led a pull and failed in Coolify is a failed pull, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from bots.status import FailureCause
from pool.images.warmth import SAME_IMAGE, warm_images
from slots.deployment import Deployment, WarmImage
from slots.images import PlatformImage, Prepull, PrepullStatus


@dataclass(frozen=True, kw_only=True)
class FailedPull:
    server_uuid: str
    detail: str


def is_proven(row: PlatformImage) -> bool:
    """Whether the wanted image is on a server, or was since it is wanted."""
    known = WarmImage.objects.filter(image=row.wanted, cold_since__isnull=True)
    lately = Q(confirmed_at__gte=row.wanted_since or row.since)
    return known.filter(lately | Q(pk__in=warm_images().values("pk"))).exists()


def failed_pulls(row: PlatformImage) -> Sequence[FailedPull]:
    """Of the wanted image, since it is wanted, on servers that have not got it since."""
    by_bots = [(each.server_uuid, each.reason) for each in failed_starts(row)]
    beforehand = [(each.server_uuid, each.detail) for each in failed_prepulls(row)]
    return [FailedPull(server_uuid=uuid, detail=why) for uuid, why in beforehand + by_bots]


def failed_prepulls(row: PlatformImage) -> QuerySet[Prepull]:
    failed = Prepull.objects.filter(image=row.wanted, status=PrepullStatus.FAILED)
    since_then = failed.filter(created_at__gte=row.wanted_since or row.since)
    later = Prepull.objects.filter(status=PrepullStatus.DONE, pk__gt=OuterRef("pk"), **SAME_IMAGE)
    return since_then.exclude(Exists(later)).order_by("pk")


def failed_starts(row: PlatformImage) -> QuerySet[Deployment]:
    """Only those that pulled, and that Coolify ended as failed: a lost server, say, proves nothing
    about the image."""
    failed = Deployment.objects.filter(
        image=row.wanted,
        leader=True,
        failure_cause=FailureCause.DEPLOYMENT_FAILED,
        ended_at__gte=row.wanted_since or row.since,
    )
    since_then = {"confirmed_at__gt": OuterRef("ended_at"), "cold_since__isnull": True}
    found = WarmImage.objects.filter(**since_then, **SAME_IMAGE)
    return failed.exclude(Exists(found)).order_by("pk")
