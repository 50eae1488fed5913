"""How the queue does: for each platform who waits, and how those fared who waited lately."""

from dataclasses import dataclass
from datetime import timedelta

from bots.status import Platform
from core.sql import fetch_all

PERIOD = timedelta(hours=1)
# Of the newest bots only, however many there are.
RECENT = 20_000


@dataclass(frozen=True, kw_only=True)
class QueueReport:
    """`wait_*`: how long those who got a slot in the period had waited for it, None if nobody
    did. Bots that got one at once are not counted: they never waited."""

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
        """Of those whose waiting has ended, those who waited in vain."""
        ended = self.served + self.timed_out + self.cancelled
        return self.timed_out / ended if ended else None


_REPORT = """
WITH lately AS (
    SELECT id, platform, queued_at, status, ended_at FROM bots_bot
    WHERE id > (SELECT max(id) FROM bots_bot) - %(recent)s AND queued_at IS NOT NULL
), ends AS (
    SELECT
        bot.platform, wait.to_status,
        extract(epoch FROM wait.at - bot.queued_at)::float8 AS seconds
    FROM lately AS bot
    CROSS JOIN LATERAL (
        SELECT at, to_status FROM bots_botevent
        WHERE bot_id = bot.id AND from_status = 'QUEUED' AND to_status <> 'QUEUED'
        ORDER BY id LIMIT 1
    ) AS wait
    WHERE wait.at > clock_timestamp() - %(period)s::interval
), past AS (
    SELECT
        platform,
        count(*) FILTER (WHERE to_status = 'DEPLOYING') AS served,
        count(*) FILTER (WHERE to_status = 'FAILED') AS timed_out,
        count(*) FILTER (WHERE to_status = 'CANCELLED') AS cancelled,
        percentile_cont(ARRAY[0.5, 0.9, 0.99]) WITHIN GROUP (ORDER BY seconds)
            FILTER (WHERE to_status = 'DEPLOYING') AS waits
    FROM ends GROUP BY platform
), present AS (
    SELECT
        entry.platform, count(*) AS waiting,
        extract(epoch FROM clock_timestamp() - min(bot.status_since))::float8 AS oldest
    FROM queues_queueentry AS entry JOIN bots_bot AS bot ON bot.id = entry.bot_id
    GROUP BY entry.platform
)
SELECT platform, waiting, oldest, served, timed_out, cancelled, waits
FROM unnest(%(platforms)s::text[]) AS platform
LEFT JOIN past USING (platform) LEFT JOIN present USING (platform)
ORDER BY array_position(%(platforms)s::text[], platform)
"""


def report_queue(*, period: timedelta = PERIOD) -> list[QueueReport]:
    """One report for each platform, in one query."""
    parameters = {"period": period, "recent": RECENT, "platforms": Platform.values}
    return [_report(*row) for row in fetch_all(_REPORT, parameters)]


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
