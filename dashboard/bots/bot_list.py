"""The list of bots, newest first."""

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from bots.meetings import masked_address
from bots.models import Bot
from bots.status import TERMINAL, WAITING, BotStatus
from core.permissions import VIEW
from dashboard.bots.filters import CHOICES, bots_that_match, ranges_of
from dashboard.lists.csv_export import MOST_EXPORTED, csv_file, wants_csv
from dashboard.live import estimates, live_page, version_of
from dashboard.paging import older
from dashboard.permissions import needs
from pool.waiting.waiting_for import waiting_for_each

COLUMNS = (
    "id", "status", "status_since", "platform", "display_name", "meeting_url", "slot_name",
    "priority", "placements", "failure_kind", "failure_cause", "failure_reason", "correlation_id",
    "coolify_service_uuid", "created_at", "queued_at", "started_at", "last_heartbeat_at",
    "ended_at",
)  # fmt: skip


@require_safe
@needs(VIEW)
def bot_list(request: HttpRequest) -> HttpResponseBase:
    matching = bots_that_match(request.GET)
    if wants_csv(request.GET):
        return csv_file("bots", COLUMNS, _cells(matching))
    return _page(request, matching)


def _page(request: HttpRequest, matching: QuerySet[Bot]) -> HttpResponse:
    page = older(matching.defer("config"), request.GET)
    statuses = set(page.rows.values_list("status", flat=True))

    def live() -> dict[str, Any]:
        bots, before = page.shown()
        waiting = waiting_for_each(bots)
        filters = {name: request.GET.get(name, "") for name in [*CHOICES, "q"]}
        rows = [(bot, waiting.get(bot.pk)) for bot in bots]
        return {"rows": rows, "before": before, "filters": filters}

    return live_page(
        request,
        template="bots/bots.html",
        version=version_of(page.rows, _estimates(statuses)),
        live=live,
        frame=lambda: {"choices": CHOICES, "given": request.GET, "exports": True},
        settled=_is_settled(request.GET, statuses),
    )


def _is_settled(given: QueryDict, statuses: set[str]) -> bool:
    """Bots that have ended do not change, and none is added to an older page or to one number."""
    numbers = ranges_of(given.get("q", ""))
    is_one_number = len(numbers) == 1 and numbers[0][0] == numbers[0][1]
    none_is_added = "before" in given or is_one_number
    return none_is_added and bool(statuses) and statuses <= set(TERMINAL)


def _estimates(statuses: set[str]) -> float | None:
    """What waiting bots are told changes with time; a page without any stays the same."""
    waits = (*WAITING, BotStatus.DEPLOYING)
    return estimates() if statuses.intersection(waits) else None


def _cells(matching: QuerySet[Bot]) -> Iterator[tuple[Any, ...]]:
    rows = matching.order_by("-pk").values_list(*COLUMNS)[:MOST_EXPORTED]
    address = COLUMNS.index("meeting_url")
    for row in rows.iterator(chunk_size=2_000):
        yield (*row[:address], masked_address(row[address]), *row[address + 1 :])
