"""The table of slots, with filters."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from core.permissions import VIEW
from dashboard.live import live_page, version_of
from dashboard.paging import number
from dashboard.permissions import needs
from dashboard.slots.filters import CHOICES, SORTS, slots_that_match
from slots.description import wanted_description
from slots.models import Slot

SLOTS_PER_PAGE = 200


@dataclass(frozen=True, kw_only=True)
class Row:
    slot: Slot
    description: str

    @property
    def is_mirrored(self) -> bool:
        return self.slot.description_written == self.description


@require_safe
@needs(VIEW)
def slot_list(request: HttpRequest) -> HttpResponse:
    matching = slots_that_match(request.GET)
    total = matching.count()
    page = max(1, number(request.GET, "page", 1))
    shown = matching[(page - 1) * SLOTS_PER_PAGE : page * SLOTS_PER_PAGE]

    def live() -> dict[str, Any]:
        rows = [Row(slot=slot, description=wanted_description(slot)) for slot in shown]
        return {
            "rows": rows,
            "total": total,
            "page": page,
            "more": total > page * SLOTS_PER_PAGE,
            "sorts": list(SORTS),
            "filters": {name: request.GET.get(name, "") for name in [*CHOICES, "q"]},
        }

    return live_page(
        request,
        template="slots/slots.html",
        version=version_of(shown, total),
        live=live,
        frame=lambda: {"choices": CHOICES, "given": request.GET},
    )
