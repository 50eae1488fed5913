"""Queue statistics for each platform: who waits now, and how recent waits ended."""

from dataclasses import dataclass
from datetime import timedelta

from bots.status import Platform
from core.sql import fetch_all
from pool.waiting.measurements import QUEUE_REPORT

PERIOD = timedelta(hours=1)
# Only the newest bots are read, however many there are.
RECENT = 20_000


@dataclass(frozen=True, kw_only=True)
class QueueReport:
    """`wait_*`: how long the bots that got a slot in the period had waited; None if none did.
    Bots that got one at once are not counted: they never waited."""

    platform: str
    waiting: int
    oldest_wait: timedelta | None
    served: int
    timed_out: int
    cancelled: int
    wait_median: timedelta | None
    wait_p90: timedelta | None
    wait_p99: timedelta | None

    @property
    def timed_out_share(self) -> float | None:
        """The share of ended waits that were in vain."""
        ended = self.served + self.timed_out + self.cancelled
        return self.timed_out / ended if ended else None


def report_queue(*, period: timedelta = PERIOD) -> list[QueueReport]:
    """One report for each platform, in one query."""
    parameters = {"period": period, "recent": RECENT, "platforms": Platform.values}
    return [_report(*row) for row in fetch_all(QUEUE_REPORT, parameters)]


def _report(
    platform: str,
    waiting: int | None,
    oldest: float | None,
    served: int | None,
    timed_out: int | None,
    cancelled: int | None,
    waits: list[float] | None,
) -> QueueReport:
    median, p90, p99 = waits or (None, None, None)
    return QueueReport(
        platform=platform,
        waiting=waiting or 0,
        oldest_wait=_duration(oldest),
        served=served or 0,
        timed_out=timed_out or 0,
        cancelled=cancelled or 0,
        wait_median=_duration(median),
        wait_p90=_duration(p90),
        wait_p99=_duration(p99),
    )


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
