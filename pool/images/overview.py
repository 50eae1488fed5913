"""The images of all platforms, and how far a switch has come."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db import models

from pool.images.rollout import image_to_restore
from pool.images.trials import FailedPull, failed_pulls
from slots.images import ImageSwitch, PlatformImage, Prepull


class ImageState(models.TextChoices):
    SETTLED = "settled", "In use"
    SWITCHING = "switching", "Switching"
    PULL_FAILED = "pull_failed", "Pull failed"
    RESTORED = "restored", "Restored"


@dataclass(frozen=True, kw_only=True)
class ImageOverview:
    row: PlatformImage
    servers: int
    switched: int
    failed: Sequence[FailedPull] = field(default_factory=list)

    @property
    def state(self) -> ImageState:
        if self.row.restored_at is not None:
            return ImageState.RESTORED
        if not self.row.wanted:
            return ImageState.SETTLED
        return ImageState.PULL_FAILED if self.failed else ImageState.SWITCHING

    @property
    def restorable(self) -> str:
        return image_to_restore(self.row)

    @property
    def progress(self) -> str:
        """For people; empty if nothing is under way."""
        if not self.row.wanted:
            return ""
        servers = f"{self.switched} of {self.servers} servers use {self.row.wanted}"
        return f"{servers}, the others {self.row.image} until it is pulled there."


def image_overviews() -> list[ImageOverview]:
    """In the order of the platforms; empty before the first pass."""
    rows = PlatformImage.objects.in_bulk()
    switched = Counter(ImageSwitch.objects.values_list("platform", flat=True))
    return [
        ImageOverview(
            row=rows[platform],
            servers=len(settings.COOLIFY_SERVER_UUIDS or [""]),
            switched=switched[platform],
            failed=failed_pulls(rows[platform]) if rows[platform].wanted else [],
        )
        for platform in settings.BOT_IMAGES
        if platform in rows
    ]


def recent_prepulls() -> list[Prepull]:
    """The open ones, and the last of each other image and server."""
    last = Prepull.objects.order_by("image", "server_uuid", "-pk").distinct("image", "server_uuid")
    return sorted(last, key=lambda each: (each.server_uuid, -each.pk))
