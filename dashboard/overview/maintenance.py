"""The maintenance page: drain a platform or everything, and see when it is safe."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from bots.status import Platform
from core.permissions import VIEW
from dashboard.live import estimates, live_page, version_of, version_of_pool
from dashboard.permissions import needs
from pool.waiting.draining import Draining, draining
from slots.models import Slot
from slots.status import SlotStatus

SHOWN = 50


@require_safe
@needs(VIEW)
def maintenance(request: HttpRequest) -> HttpResponse:
    active = Slot.objects.exclude(status=SlotStatus.IDLE).exists()
    return live_page(
        request,
        template="dashboard/maintenance.html",
        version=version_of(version_of_pool(), estimates() if active else None),
        live=_context,
    )


def _context() -> dict[str, Any]:
    drains = [draining(platform) for platform in Platform]
    paused = [each for each in drains if each.paused is not None]
    return {
        "drains": drains,
        "is_safe": all(each.is_safe for each in drains),
        "is_all_paused": len(paused) == len(drains),
        "running": sum(len(each.runners) for each in drains),
        "last_end_at": _last_end(drains),
        "to_pause": "&".join(f"item={each.platform.value}" for each in drains if not each.paused),
        "to_resume": "&".join(f"item={each.platform.value}" for each in paused),
        "shown": SHOWN,
    }


def _last_end(drains: list[Draining]) -> Any:
    ends = [each.last_end_at for each in drains if each.last_end_at is not None]
    return max(ends, default=None)
