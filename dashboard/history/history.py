"""The history page. Not live: it is read anew with each visit."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from bots.status import Platform
from core.clock import database_now
from core.permissions import VIEW
from dashboard.history.points import RANGES, Point, causes_of, history
from dashboard.lists.csv_export import csv_file, wants_csv
from dashboard.permissions import needs

# A table longer than this helps no reader; the CSV file has all.
MOST_ROWS = 200

COLUMNS = (
    "at", "in_use", "capacity", "waiting", "wait_p50", "wait_p95", "start_warm", "start_cold",
    "requested", "warm_starts", "cold_starts", "failed",
)  # fmt: skip


@require_safe
@needs(VIEW)
def history_page(request: HttpRequest) -> HttpResponseBase:
    chosen = RANGES.get(request.GET.get("range", "24h"))
    platform = request.GET.get("platform", "")
    if chosen is None or platform not in ("", *Platform.values):
        raise Http404
    points = history(chosen, platform=platform)
    causes = causes_of(points)
    if wants_csv(request.GET):
        columns = (*COLUMNS, *(cause for cause, _ in causes))
        return csv_file("history", columns, (_cells(point, causes) for point in points))
    now = database_now()
    context = {
        "ranges": list(RANGES.values()),
        "chosen": chosen,
        "platforms": list(Platform),
        "platform": platform,
        "points": points[-MOST_ROWS:],
        "has_more": len(points) > MOST_ROWS,
        "causes": causes,
        "totals": _totals(points),
        "data": _data(points, causes, begin=now - chosen.length, end=now),
    }
    return render(request, "dashboard/history.html", context)


def _cells(point: Point, causes: list[tuple[str, str]]) -> list[Any]:
    own = [getattr(point, name) for name in COLUMNS]
    return [*own, *(point.failures[cause] for cause, _ in causes)]


def _totals(points: list[Point]) -> dict[str, Any]:
    starts = sum(point.warm_starts + point.cold_starts for point in points)
    warm = sum(point.warm_starts for point in points)
    return {
        "requested": sum(point.requested for point in points),
        "starts": starts,
        "warm_share": warm / starts if starts else None,
        "failed": sum(point.failed for point in points),
        "peak": max((point.in_use for point in points), default=0),
        "waiting": max((point.waiting for point in points), default=0),
    }


def _data(
    points: list[Point], causes: list[tuple[str, str]], *, begin: datetime, end: datetime
) -> dict[str, Any]:
    """What the charts draw: times in seconds, and one list per line. The first and the last have no
    values: they make the axis as long as the range, also where samples are missing."""

    def line(values: Iterable[Any]) -> list[Any]:
        return [None, *values, None]

    return {
        "at": [int(at.timestamp()) for at in (begin, *(point.at for point in points), end)],
        **{n: line(getattr(point, n) for point in points) for n in COLUMNS if n != "at"},
        "causes": [
            {"name": name, "values": line(point.failures[cause] for point in points)}
            for cause, name in causes
        ],
    }
