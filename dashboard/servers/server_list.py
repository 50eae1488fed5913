"""The servers page: states, slots, images and what operators have ordered."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from core.permissions import VIEW
from dashboard.live import estimates, live_page, version_of
from dashboard.overview.health import health_of_coolify
from dashboard.permissions import needs
from pool.images.overview import image_overviews
from pool.servers.overview import server_overviews
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import PlatformImage, Prepull
from slots.models import Slot


@require_safe
@needs(VIEW)
def server_list(request: HttpRequest) -> HttpResponseBase:
    def live() -> dict[str, Any]:
        return {
            "overviews": server_overviews(),
            "images": image_overviews(),
            "coolify": health_of_coolify(),
        }

    slots = Slot.objects.values_list("pk", "status", "server_uuid").order_by("pk")
    # Without what a reading alone changes: `read_at` does every few seconds.
    states = Server.objects.values_list(
        "uuid", "name", "state", "state_reason", "order", "order_until", "window_from"
    )
    return live_page(
        request,
        template="servers/servers.html",
        version=version_of(
            list(slots),
            list(states.order_by("uuid")),
            WarmImage.objects.all(),
            PlatformImage.objects.all(),
            Prepull.objects.all(),
            estimates(),
        ),
        live=live,
    )
