"""What the estimate is based on, read from a platform's history and slots."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from core.clock import database_now
from core.sql import fetch_all, fetch_one
from pool.capacity import pool_size, read_pool
from pool.waiting.estimate import TYPICAL_START, TYPICAL_STOP, Measured, PoolState
from slots.models import Pool

# The newest lines of the history, however long it is.
RECENT = 2_000
_SPREAD = [(n + 0.5) / 24 for n in range(24)]

# How bots of this platform have used their slots lately. The first start in a slot does not count
# as a start: a waiter gets a slot that has its image.
_HISTORY = """
SELECT
    percentile_cont(%(spread)s::float8[]) WITHIN GROUP (ORDER BY seconds)
        FILTER (WHERE from_status = 'busy') AS ran,
    count(*) FILTER (WHERE from_status = 'busy') AS bots,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds)
        FILTER (WHERE to_status = 'busy' AND epoch > 1) AS start,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds)
        FILTER (WHERE from_status = 'stopping' AND to_status = 'idle') AS stop
FROM (
    SELECT
        told.from_status, told.to_status, told.epoch,
        extract(epoch FROM told.lasted)::float8 AS seconds
    FROM slots_slottransition AS told JOIN slots_slot AS slot ON slot.id = told.slot_id
    WHERE told.id > (SELECT max(id) FROM slots_slottransition) - %(recent)s
    AND slot.platform = %(platform)s
) AS recent
"""

# A cordoned slot will not be given again, one in error is not counted on, and one on a server that
# is out of service is not free. But all are slots: they leave no room for others.
_SLOTS = """
SELECT
    coalesce(
        array_agg(coalesce(extract(epoch FROM clock_timestamp() - last_assigned_at)::float8, 0))
            FILTER (WHERE status IN ('deploying', 'busy') AND NOT cordoned), '{}') AS held_for,
    coalesce(
        array_agg(extract(epoch FROM clock_timestamp() - status_since)::float8)
            FILTER (WHERE status = 'stopping' AND NOT cordoned), '{}') AS stopping_for,
    count(*) FILTER (
        WHERE status = 'idle' AND NOT cordoned AND server_uuid NOT IN (
            SELECT uuid FROM coolify_serverreading WHERE state NOT IN ('healthy', 'degraded'))
    ) AS idle,
    count(*) AS slots
FROM slots_slot
WHERE platform = %(platform)s
"""

# Both are one row, so that they are read in one round trip. Not ORM: percentiles and filters.
_SITUATION = f"""
SELECT ran, bots, start, stop, held_for, stopping_for, idle, slots,
    (SELECT open_since FROM coolify_budget WHERE open_until IS NOT NULL LIMIT 1)
FROM ({_HISTORY}) AS history, ({_SLOTS}) AS slots
"""  # noqa: S608 (nothing of this comes from outside)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known about a platform. `pause`: for how many more seconds it is paused, infinite if
    without an end. `paused`: its pool, while it is paused. `coolify_away_since`: while Coolify does
    not answer, no slot comes free."""

    measured: Measured
    pool: PoolState
    pause: float
    paused: Pool | None
    coolify_away_since: datetime | None


def measure_platform(platform: str) -> Situation:
    row = fetch_one(_SITUATION, {"platform": platform, "spread": _SPREAD, "recent": RECENT})
    assert row is not None
    ran, bots, start, stop, held_for, stopping_for, idle, slots, away_since = row
    pool = read_pool(platform)
    room = max(0, pool_size(platform, pool) - slots)
    pause = _pause(pool)
    return Situation(
        measured=Measured(
            ran=ran or (),
            bots=bots,
            start=TYPICAL_START if start is None else start,
            stop=TYPICAL_STOP if stop is None else stop,
        ),
        pool=PoolState(held_for=held_for, stopping_for=stopping_for, free=idle + room),
        pause=pause,
        paused=pool if pause else None,
        coolify_away_since=away_since,
    )


def _pause(pool: Pool) -> float:
    if pool.paused_at is None:
        return 0.0
    if pool.paused_until is None:
        return inf
    return max(0.0, (pool.paused_until - database_now()).total_seconds())


# --- Starts ------------------------------------------------------------------------------------

# From the call to the running container, by image. Not ORM: percentiles and filters.
_STARTS = """
SELECT
    image,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE NOT leader) AS warm,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE leader) AS cold
FROM (
    SELECT image, leader, extract(epoch FROM ended_at - start_asked_at)::float8 AS seconds
    FROM slots_deployment
    WHERE id > (SELECT max(id) FROM slots_deployment) - %(recent)s
    AND status = 'finished' AND start_asked_at IS NOT NULL
) AS recent
GROUP BY image
"""


@dataclass(frozen=True, kw_only=True)
class TypicalStart:
    """How long a start takes with its image on the server, and with the pull of it: None if no
    pull was seen lately."""

    warm: timedelta = timedelta(seconds=TYPICAL_START)
    cold: timedelta | None = None


def typical_starts() -> dict[str, TypicalStart]:
    """By image, of those that were started lately."""
    return {
        image: TypicalStart(
            warm=timedelta(seconds=TYPICAL_START if warm is None else warm),
            cold=None if cold is None else timedelta(seconds=cold),
        )
        for image, warm, cold in fetch_all(_STARTS, {"recent": RECENT})
    }


# --- The steps of a bot ------------------------------------------------------------------------

# Medians of the newest starts and joins of a platform. Not ORM: percentiles and filters.
_STEPS = """
SELECT
    percentile_cont(0.5) WITHIN GROUP (ORDER BY d.created_at - bot.created_at)
        FILTER (WHERE bot.placements = 1) AS queued,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY d.image_at - d.created_at) AS image,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY d.place_at - d.image_at) AS place,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY d.ended_at - d.place_at)
        FILTER (WHERE d.status = 'finished' AND NOT d.leader) AS container,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY d.ended_at - d.place_at)
        FILTER (WHERE d.status = 'finished' AND d.leader) AS pull,
    (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY event.at - joining.started_at)
        FROM bots_botevent AS event JOIN bots_bot AS joining ON joining.id = event.bot_id
        WHERE event.id > (SELECT max(id) FROM bots_botevent) - %(recent)s
        AND event.to_status = 'IN_CALL' AND joining.platform = %(platform)s
        AND event.at > joining.started_at) AS joining,
    (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY call.ended_at - event.at)
        FROM bots_botevent AS event JOIN bots_bot AS call ON call.id = event.bot_id
        WHERE event.id > (SELECT max(id) FROM bots_botevent) - %(recent)s
        AND event.to_status = 'IN_CALL' AND call.platform = %(platform)s
        AND call.status = 'DONE') AS in_call
FROM slots_deployment AS d JOIN bots_bot AS bot ON bot.id = d.bot_id
WHERE d.id > (SELECT max(id) FROM slots_deployment) - %(recent)s AND bot.platform = %(platform)s
"""
PULL = "Pull"  # the step of a container whose start pulls the image
STEPS = ("Queued", "Image", "Build place", "Container", PULL, "Joining", "In call")


def typical_steps(platform: str) -> dict[str, timedelta]:
    """How long each step of a bot of this platform usually takes; without those not known."""
    row = fetch_one(_STEPS, {"platform": platform, "recent": RECENT})
    assert row is not None
    return {name: lasted for name, lasted in zip(STEPS, row, strict=True) if lasted is not None}


# --- The queue ---------------------------------------------------------------------------------

# For pool.waiting.statistics. Not ORM: percentiles over laterally joined events.
QUEUE_REPORT = """
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
