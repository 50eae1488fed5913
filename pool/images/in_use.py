"""Which image a platform's bots use on a server: one rule, as an expression of SQL."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Now

from core.prepared import Parameter
from slots.deployment import WarmImage
from slots.images import ImageSwitch, PlatformImage

# By evidence, and as far as the clean-up of images is concerned.
IS_SURE = Q(trusted_until__isnull=True) | Q(trusted_until__gt=Now())


def image_in_use(*, platform: Any, server: Any, named: Any) -> Coalesce:
    """What the server has switched to, else the platform's image. `named`, the environment's
    image, is used if there is no history yet."""
    switched = ImageSwitch.objects.filter(platform=platform, server_uuid=server)
    general = PlatformImage.objects.filter(platform=platform)
    default = named if isinstance(named, Combinable) else Value(named)
    return Coalesce(
        Subquery(switched.values("image")[:1]),
        Subquery(general.values("image")[:1]),
        default,
        output_field=CharField(),
    )


# For an INSERT that is compiled once; see core.prepared.
IMAGE_FOR_BOT = image_in_use(
    platform=Parameter("platform"),
    server=Parameter("server"),
    named=Parameter("named image", CharField()),
)


def image_parameters(*, platform: str, server: str) -> dict[str, str]:
    """The parameters of IMAGE_FOR_BOT."""
    image: str = settings.BOT_IMAGES[platform]
    return {"platform": platform, "server": server, "named image": image}


def has_rejected_image(*, platform: str, server: str) -> Q:
    """For deployments: whether their image was in use and must not be started any more. One that
    was in line at the end of a switch may use the previous image, unless that was rejected."""
    rows = PlatformImage.objects.filter(platform=platform).exclude(image=OuterRef("image"))
    rejecting = rows.exclude(restored_at__isnull=True, previous=OuterRef("image"))
    switched = ImageSwitch.objects.filter(
        platform=platform, server_uuid=server, image=OuterRef("image")
    )
    return Q(Exists(rejecting)) & ~Q(Exists(switched))


def servers_with_image(
    platform: Any, *, named: Any, pulled_since: datetime | Combinable
) -> QuerySet[WarmImage, str]:
    """The servers on which the image that this platform's bots use there is warm."""
    used = image_in_use(platform=platform, server=OuterRef("server_uuid"), named=named)
    warm = WarmImage.objects.filter(
        IS_SURE, image=used, warmed_at__gt=pulled_since, cold_since__isnull=True
    )
    return warm.values_list("server_uuid", flat=True)


def images_by_server(platform: str, servers: list[str]) -> dict[str, str]:
    """For people: the image in use on each of these servers."""
    general = PlatformImage.objects.filter(platform=platform).values_list("image", flat=True)
    image = general.first() or settings.BOT_IMAGES[platform]
    switched = ImageSwitch.objects.filter(platform=platform)
    by_server = dict(switched.values_list(F("server_uuid"), F("image")))
    return {server: by_server.get(server, image) for server in servers}
