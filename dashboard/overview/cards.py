"""One card per platform: slots, queue, starts and charts of the last hour."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, DurationField, ExpressionWrapper, F, Max, Min, Q
from django.db.models.functions import Now
from django.utils.safestring import SafeString

from bots.status import Platform
from dashboard.models import PoolSample
from dashboard.overview.cells import Cell, cells_by_platform, grid
from dashboard.overview.charts import Chart, line_chart, stacked_chart
from pool.capacity import paused_pools, pool_size
from pool.waiting.measurements import TypicalStart, typical_starts
from queues.models import QueueEntry
from slots.deployment import ACTIVE, Deployment, DeploymentStatus
from slots.models import Pool, Slot
from slots.status import HELD, SlotStatus

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Card:
    platform: Platform
    cells: list[Cell]
    counts: list[tuple[str, int]]
    maximum: int
    own_size: bool  # set by an operator, not by MAX_POOL_SIZE
    in_use: int
    waiting: int
    oldest: datetime | None
    deploying: int
    warm_share: int | None
    paused: Pool | None
    charts: list[Chart]
    stop_problems: int = 0

    @property
    def grid(self) -> SafeString:
        return grid(self.cells)

    @property
    def share(self) -> int:
        return round(100 * self.in_use / self.maximum) if self.maximum else 0

    @property
    def cordoned(self) -> int:
        """Those that an operator took out of service, not those beyond a smaller size."""
        return sum(cell.cordoned and not cell.beyond_size for cell in self.cells)

    @property
    def beyond_size(self) -> int:
        """Those that get no bot since the pool was made smaller."""
        return sum(cell.beyond_size for cell in self.cells)

    @property
    def free(self) -> int:
        """How many bots could get a slot now."""
        usable = sum(cell.status == "idle" and not cell.cordoned for cell in self.cells)
        return 0 if self.paused else usable + self.room

    @property
    def room(self) -> int:
        return max(self.maximum - len(self.cells), 0)


def cards() -> list[Card]:
    """The number of queries does not depend on the number of slots."""
    pools = {pool.platform: pool for pool in Pool.objects.all()}
    paused = {pool.platform: pool for pool in paused_pools()}
    lines = _lines()
    cells = cells_by_platform(_starts_under_way())
    troubled = _stop_problems()
    warm = _warm_shares()
    samples = _by_platform(_last_hour())
    return [
        _card(
            platform,
            cells=cells[platform],
            stop_problems=troubled[platform],
            pool=pools.get(platform),
            paused=paused.get(platform),
            line=lines.get(platform, (0, None)),
            warm_share=warm.get(platform),
            samples=samples[platform],
        )
        for platform in Platform
    ]


def _card(
    platform: Platform,
    *,
    cells: list[Cell],
    stop_problems: int,
    pool: Pool | None,
    paused: Pool | None,
    line: tuple[int, datetime | None],
    warm_share: int | None,
    samples: list[PoolSample],
) -> Card:
    counted = Counter(cell.status for cell in cells)
    usable = Counter(cell.status for cell in cells if cell.status != "idle" or not cell.cordoned)
    return Card(
        platform=platform,
        cells=cells,
        counts=[(status.value, usable[status]) for status in SlotStatus],
        maximum=pool_size(platform, pool),
        own_size=pool is not None and pool.max_size is not None,
        in_use=sum(counted[status] for status in HELD),
        waiting=line[0],
        oldest=line[1],
        deploying=sum(cell.expected is not None for cell in cells),
        warm_share=warm_share,
        paused=paused,
        charts=_charts(samples) if samples else [],
        stop_problems=stop_problems,
    )


def _stop_problems() -> Counter[str]:
    """Only these can have one; see `Slot.stop_problem`."""
    still_calls = Q(status=SlotStatus.IDLE, late_call_at__gt=F("status_since"))
    found = Slot.objects.filter(Q(status=SlotStatus.STOPPING) | still_calls)
    return Counter(slot.platform for slot in found if slot.stop_problem)


def _by_platform(rows: Iterable) -> defaultdict[str, list]:
    grouped = defaultdict(list)
    for row in rows:
        grouped[row.platform].append(row)
    return grouped


def _lines() -> dict[str, tuple[int, datetime | None]]:
    rows = QueueEntry.objects.values_list("platform").order_by()
    return {
        platform: (waiting, oldest)
        for platform, waiting, oldest in rows.annotate(Count("id"), Min("bot__status_since"))
    }


def _starts_under_way() -> dict[int, timedelta]:
    """How long the current start of each slot usually takes, by the slot's id."""
    active = Deployment.objects.filter(status__in=ACTIVE).values_list("slot_id", "image", "leader")
    rows = list(active)
    typical = typical_starts() if rows else {}
    return {slot_id: _usual(typical.get(image), leader) for slot_id, image, leader in rows}


def _usual(typical: TypicalStart | None, leader: bool) -> timedelta:
    known = typical or TypicalStart()
    return known.cold or known.warm if leader else known.warm


def _warm_shares() -> dict[str, int]:
    """Percentage of starts in the last hour that found their image on the server."""
    newest = Deployment.objects.aggregate(newest=Max("pk"))["newest"] or 0
    # Limited to the newest starts: the table grows without bound.
    recent = Deployment.objects.filter(
        pk__gt=newest - 5000, status=DeploymentStatus.FINISHED, ended_at__gt=Now() - HOUR
    )
    warm = Count("pk", filter=Q(leader=False, waited_for_image=False))
    rows = recent.values_list("slot__platform").annotate(warm=warm, n=Count("pk")).order_by()
    return {platform: round(100 * found / starts) for platform, found, starts in rows}


def _last_hour() -> Iterable[PoolSample]:
    age = ExpressionWrapper(Now() - F("minute"), output_field=DurationField())
    return PoolSample.objects.filter(minute__gt=Now() - HOUR).annotate(age=age)


def _charts(samples: list[PoolSample]) -> list[Chart]:
    known = {age // MINUTE: row for row in samples if (age := getattr(row, "age", None))}
    minutes = [known.get(minutes_ago) for minutes_ago in reversed(range(60))]

    def series(name: str, tone: str, field: str) -> tuple[str, str, list[float | None]]:
        return name, tone, [getattr(row, field) if row else None for row in minutes]

    return [
        stacked_chart("Slots", [series(s.value, s.value, s.value) for s in SlotStatus]),
        line_chart("Waiting", [series("bots", "waiting", "waiting")]),
        line_chart(
            "Wait for a slot",
            [series("p50", "busy", "wait_p50"), series("p95", "error", "wait_p95")],
            unit="s",
        ),
        line_chart(
            "Start",
            [series("warm", "idle", "start_warm"), series("cold", "deploying", "start_cold")],
            unit="s",
        ),
    ]
