"""What the estimate is made of, read from the history and the slots of a platform."""

from dataclasses import dataclass
from math import inf

from core.sql import fetch_one
from pool.capacity import POOL_SIZE, opening_parameters
from pool.waiting.estimate import TYPICAL_START, TYPICAL_STOP, Measured, PoolState

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

# A cordoned slot will not be given again and one in error is not counted on, but both are slots:
# they leave no room for others.
_SLOTS = """
SELECT
    coalesce(
        array_agg(coalesce(extract(epoch FROM clock_timestamp() - last_assigned_at)::float8, 0))
            FILTER (WHERE status IN ('deploying', 'busy') AND NOT cordoned), '{}') AS held_for,
    coalesce(
        array_agg(extract(epoch FROM clock_timestamp() - status_since)::float8)
            FILTER (WHERE status = 'stopping' AND NOT cordoned), '{}') AS stopping_for,
    count(*) FILTER (WHERE status = 'idle' AND NOT cordoned) AS idle,
    count(*) AS slots
FROM slots_slot
WHERE platform = %(platform)s
"""

# One row also for a platform that has none in the table.
_POOL = f"""
SELECT
    {POOL_SIZE} AS maximum,
    paused_at IS NOT NULL AND (paused_until IS NULL OR paused_until > clock_timestamp()) AS paused,
    extract(epoch FROM paused_until - clock_timestamp())::float8 AS pause
FROM (SELECT) AS always LEFT JOIN slots_pool ON platform = %(platform)s
"""  # noqa: S608 (nothing of this comes from outside)

# Each of the three is one row, so that all of it is read in one round trip.
_SITUATION = f"""
SELECT ran, bots, start, stop, held_for, stopping_for, idle, slots, maximum, paused, pause
FROM ({_HISTORY}) AS history, ({_SLOTS}) AS slots, ({_POOL}) AS pool
"""  # noqa: S608 (nothing of this comes from outside)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known of a platform, and for how many seconds it is paused: infinitely many if
    nobody said until when."""

    measured: Measured
    pool: PoolState
    pause: float


def look_at_platform(platform: str) -> Situation:
    parameters = {**opening_parameters(platform), "spread": _SPREAD, "recent": RECENT}
    row = fetch_one(_SITUATION, parameters)
    assert row is not None
    ran, bots, start, stop, held_for, stopping_for, idle, slots, maximum, paused, pause = row
    return Situation(
        measured=Measured(
            ran=ran or (),
            bots=bots,
            start=TYPICAL_START if start is None else start,
            stop=TYPICAL_STOP if stop is None else stop,
        ),
        pool=PoolState(
            held_for=held_for, stopping_for=stopping_for, free=idle + max(0, maximum - slots)
        ),
        pause=(inf if pause is None else pause) if paused else 0.0,
    )
