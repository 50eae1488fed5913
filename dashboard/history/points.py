"""The history of one or all platforms as points in time."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import fmean

from django.db.models.functions import Now

from bots.status import FailureCause
from dashboard.models import PoolRollup, PoolSample

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Range:
    """How far back, how wide a point is, and which rows it is made of."""

    name: str
    title: str
    length: timedelta
    width: timedelta
    rows: str  # "minute", or a period of the rollups


RANGES = {
    each.name: each
    for each in (
        Range(name="1h", title="1 h", length=HOUR, width=HOUR / 60, rows="minute"),
        Range(name="24h", title="24 h", length=DAY, width=HOUR / 12, rows="minute"),
        Range(name="7d", title="7 d", length=7 * DAY, width=HOUR, rows="hour"),
        Range(name="30d", title="30 d", length=30 * DAY, width=HOUR, rows="hour"),
        Range(name="1y", title="1 y", length=365 * DAY, width=DAY, rows="day"),
    )
}


@dataclass(frozen=True, kw_only=True)
class Point:
    at: datetime
    in_use: float
    capacity: int
    waiting: float
    wait_p50: float | None
    wait_p95: float | None
    start_warm: float | None
    start_cold: float | None
    requested: int
    warm_starts: int
    cold_starts: int
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


def history(chosen: Range, *, platform: str) -> list[Point]:
    """Oldest first. Without a platform, of all of them together."""
    buckets: dict[datetime, list[tuple[str, Point]]] = defaultdict(list)
    for name, point in _rows(chosen, platform):
        buckets[_begin(point.at, chosen.width)].append((name, point))
    return [_added(at, rows) for at, rows in sorted(buckets.items())]


def _begin(moment: datetime, width: timedelta) -> datetime:
    seconds = width.total_seconds()
    return datetime.fromtimestamp(moment.timestamp() // seconds * seconds, tz=UTC)


def _rows(chosen: Range, platform: str) -> Iterable[tuple[str, Point]]:
    since = Now() - chosen.length
    of_platform = {"platform": platform} if platform else {}
    if chosen.rows == "minute":
        for sample in PoolSample.objects.filter(minute__gt=since, **of_platform):
            yield sample.platform, _point(sample, at=sample.minute, in_use=_in_use(sample))
    else:
        rollups = PoolRollup.objects.filter(period=chosen.rows, at__gt=since, **of_platform)
        for rollup in rollups:
            yield rollup.platform, _point(rollup, at=rollup.at, in_use=rollup.in_use)


def _in_use(sample: PoolSample) -> int:
    return sample.busy + sample.deploying + sample.stopping


def _point(row: PoolSample | PoolRollup, *, at: datetime, in_use: float) -> Point:
    return Point(
        at=at,
        in_use=in_use,
        capacity=row.capacity,
        waiting=row.waiting,
        wait_p50=row.wait_p50,
        wait_p95=row.wait_p95,
        start_warm=row.start_warm,
        start_cold=row.start_cold,
        requested=row.requested,
        warm_starts=row.warm_starts,
        cold_starts=row.cold_starts,
        failures=Counter(row.failures),
    )


def _added(at: datetime, rows: list[tuple[str, Point]]) -> Point:
    """Over time, levels are means and peaks; over platforms, they add up."""
    by_platform: dict[str, list[Point]] = defaultdict(list)
    for platform, point in rows:
        by_platform[platform].append(point)
    points = [point for _, point in rows]
    failures: Counter[str] = sum((point.failures for point in points), Counter())
    return Point(
        at=at,
        in_use=round(sum(fmean(p.in_use for p in each) for each in by_platform.values()), 2),
        capacity=sum(max(p.capacity for p in each) for each in by_platform.values()),
        waiting=sum(max(p.waiting for p in each) for each in by_platform.values()),
        wait_p50=_mean(p.wait_p50 for p in points),
        wait_p95=max((p.wait_p95 for p in points if p.wait_p95 is not None), default=None),
        start_warm=_mean(p.start_warm for p in points),
        start_cold=_mean(p.start_cold for p in points),
        requested=sum(p.requested for p in points),
        warm_starts=sum(p.warm_starts for p in points),
        cold_starts=sum(p.cold_starts for p in points),
        failures=failures,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 2) if known else None


def causes_of(points: list[Point]) -> list[tuple[str, str]]:
    """The causes that occur, most frequent first, with their names."""
    total: Counter[str] = sum((point.failures for point in points), Counter())
    names = dict(FailureCause.choices)
    return [(cause, str(names.get(cause, cause))) for cause, _ in total.most_common()]
