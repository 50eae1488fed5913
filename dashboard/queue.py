"""The queue page: waiting bots in the order in which they are served, and why they wait."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from bots.models import Bot
from bots.status import Platform
from core.permissions import VIEW
from dashboard.lists.csv_export import csv_file, wants_csv
from dashboard.live import estimates, live_page, version_of
from dashboard.permissions import needs
from pool.capacity import paused_pools
from pool.waiting.position import Place, places_in_line
from pool.waiting.reasons import why_each_waits
from pool.waiting.statistics import QueueReport, report_queue
from queues.models import QueueEntry
from slots.models import Pool, Slot

SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class Waiter:
    entry: QueueEntry
    bot: Bot
    place: Place
    reasons: list[str]

    @property
    def estimate(self) -> timedelta | None:
        return self.place.estimated_wait


@dataclass(frozen=True, kw_only=True)
class WaitingLine:
    platform: Platform
    report: QueueReport
    paused: Pool | None
    waiters: list[Waiter]

    @property
    def more(self) -> int:
        return self.report.waiting - len(self.waiters)


@require_safe
@needs(VIEW)
def queue(request: HttpRequest) -> HttpResponseBase:
    chosen = request.GET.get("platform", "")
    platforms = [each for each in Platform if chosen in ("", each.value)]
    if wants_csv(request.GET):
        return csv_file("queue", COLUMNS, _cells(platforms))
    entries = QueueEntry.objects.filter(platform__in=platforms).order_by("pk")
    version = version_of(
        entries,
        Pool.objects.all(),
        Slot.objects.filter(platform__in=platforms),
        estimates(),
    )
    return live_page(
        request,
        template="queues/queue.html",
        version=version,
        live=lambda: {"lines": _lines(platforms), "chosen": chosen},
        frame=lambda: {"platforms": list(Platform), "chosen": chosen},
    )


def _lines(platforms: list[Platform]) -> list[WaitingLine]:
    reports = {report.platform: report for report in report_queue()}
    paused = {pool.platform: pool for pool in paused_pools()}
    return [
        WaitingLine(
            platform=platform,
            report=reports[platform],
            paused=paused.get(platform),
            waiters=_waiters(platform) if reports[platform].waiting else [],
        )
        for platform in platforms
    ]


def _waiters(platform: Platform) -> list[Waiter]:
    places = places_in_line(platform, limit=SHOWN)
    reasons = why_each_waits(platform, limit=SHOWN)
    entries: dict[int, Any] = QueueEntry.objects.select_related("bot__client").in_bulk(
        list(places), field_name="bot_id"
    )
    return [
        Waiter(
            entry=entries[bot_id],
            bot=entries[bot_id].bot,
            place=place,
            reasons=reasons.get(bot_id, []),
        )
        for bot_id, place in places.items()
        if bot_id in entries
    ]


# --- Export ------------------------------------------------------------------------------------

COLUMNS = (
    "platform", "place", "bot", "name", "priority", "queued_at", "gives_up_at", "slot_expected_at",
    "gives_up_before_its_turn",
)  # fmt: skip


def _cells(platforms: list[Platform]) -> Iterator[list[Any]]:
    for platform in platforms:
        places = places_in_line(platform)
        entries: dict[int, Any] = QueueEntry.objects.select_related("bot__client").in_bulk(
            list(places), field_name="bot_id"
        )
        for bot_id, place in places.items():
            if bot_id in entries:
                yield _cells_of(entries[bot_id], place)


def _cells_of(entry: QueueEntry, place: Place) -> list[Any]:
    return [
        entry.platform,
        place.position,
        entry.bot_id,
        entry.bot.display_name,
        entry.priority,
        entry.bot.queued_at,
        place.gives_up_at,
        place.slot_expected_at,
        place.gives_up_before_its_turn,
    ]
