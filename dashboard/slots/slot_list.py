"""The table of slots, with filters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from coolify.models import Budget
from core.permissions import VIEW
from dashboard.lists.csv_export import csv_file, wants_csv
from dashboard.live import live_page, version_of
from dashboard.paging import number
from dashboard.permissions import needs
from dashboard.slots.filters import CHOICES, SORTS, slots_that_match
from pool.failures.recent import failures_of
from pool.waiting.slot_waits import what_slots_wait_for
from slots.deployment import ACTIVE, Deployment
from slots.description import wanted_description
from slots.models import Slot

SLOTS_PER_PAGE = 50


@dataclass(frozen=True, kw_only=True)
class Row:
    slot: Slot
    description: str
    waits_for: str
    failures: int

    @property
    def is_mirrored(self) -> bool:
        return self.slot.description_written == self.description


@require_safe
@needs(VIEW)
def slot_list(request: HttpRequest) -> HttpResponseBase:
    matching = slots_that_match(request.GET)
    if wants_csv(request.GET):
        return csv_file("slots", COLUMNS, _cells(matching))
    return _page(request, matching)


def _page(request: HttpRequest, matching: QuerySet[Slot]) -> HttpResponse:
    total = matching.count()
    pages = max(1, -(-total // SLOTS_PER_PAGE))
    page = min(max(1, number(request.GET, "page", 1)), pages)
    shown = matching[(page - 1) * SLOTS_PER_PAGE : page * SLOTS_PER_PAGE]

    def live() -> dict[str, Any]:
        return {
            "rows": _rows(shown),
            "total": total,
            "page": page,
            "pages": pages,
            "sorts": list(SORTS),
            "filters": {name: request.GET.get(name, "") for name in [*CHOICES, "q"]},
        }

    return live_page(
        request,
        template="slots/slots.html",
        # What slots wait for follows from the active deployments and the state of Coolify.
        version=version_of(
            shown,
            total,
            Deployment.objects.filter(status__in=ACTIVE).order_by("pk"),
            list(Budget.objects.values_list("open_since", "paused_until")),
        ),
        live=live,
        frame=lambda: {"choices": CHOICES, "given": request.GET, "exports": True},
    )


def _rows(shown: QuerySet[Slot]) -> list[Row]:
    slots = list(shown.select_related("assigned_bot"))
    waits, failures = what_slots_wait_for(slots), failures_of(slot.pk for slot in slots)
    return [
        Row(
            slot=slot,
            description=wanted_description(slot),
            waits_for=waits.get(slot.pk, ""),
            failures=failures.get(slot.pk, 0),
        )
        for slot in slots
    ]


# --- Export ------------------------------------------------------------------------------------

COLUMNS = (
    "name", "platform", "status", "status_since", "bot", "cordoned", "container_status",
    "container_seen_at", "coolify_uuid", "server_uuid", "image", "error", "recovery_attempts",
    "last_used_at", "failures_24h", "waits_for",
)  # fmt: skip


def _cells(matching: QuerySet[Slot]) -> Iterator[list[Any]]:
    slots = list(matching)
    waits, failures = what_slots_wait_for(slots), failures_of(slot.pk for slot in slots)
    for slot in slots:
        own = [getattr(slot, name, None) for name in COLUMNS[:-2]]
        own[COLUMNS.index("bot")] = slot.assigned_bot_id
        yield [*own, failures.get(slot.pk, 0), waits.get(slot.pk, "")]
