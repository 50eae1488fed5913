"""Statements for metrics and charts that the ORM cannot say: percentiles, server statistics, and
several tables in one round trip."""

# Work that never ran counts as old as the database: a missing age would trigger no alert.
SET_UP = "SELECT min(applied) FROM django_migrations"

PERIODIC = f"""
SELECT name,
    extract(epoch FROM clock_timestamp() - coalesce(finished_at, ({SET_UP})))::float8,
    coalesce(extract(epoch FROM clock_timestamp() - asked_at), 0)::float8,
    coalesce(extract(epoch FROM duration), 0)::float8,
    coalesce((error <> '')::int, 0)
FROM unnest(%(works)s::text[]) AS works (name) LEFT JOIN slots_lease ON key = name
ORDER BY name
"""  # noqa: S608 (no outside input)

WAITING_TASKS = """
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(lock)), 0)::float8
FROM django_q_ormq WHERE lock <= clock_timestamp()
"""

OLDEST_ASKED = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(asked_at)), 0)::float8
FROM slots_lease
"""

LIVENESS = f"""
SELECT
    (SELECT extract(epoch FROM clock_timestamp() - expires_at + %(ttl)s)::float8
        FROM slots_lease WHERE key = 'ticker' AND holder <> ''),
    (SELECT split_part(holder, ':', 1) FROM slots_lease WHERE key = 'ticker'),
    (SELECT extract(epoch FROM clock_timestamp() - coalesce(
            (SELECT observed_at FROM slots_watch), min(created_at)))::float8
        FROM slots_slot),
    (SELECT coalesce(extract(epoch FROM clock_timestamp() - failing_since), 0)::float8
        FROM slots_watch),
    (SELECT count(*) FROM bots_webhookdelivery WHERE due_at IS NOT NULL),
    (SELECT count(*) FROM bots_webhookendpoint WHERE disabled_at IS NOT NULL),
    (SELECT extract(epoch FROM
            clock_timestamp() - coalesce(min(counted_until), ({SET_UP})))::float8
        FROM botpool_tallymark),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    current_setting('max_connections')::int,
    pg_database_size(current_database())
"""  # noqa: S608 (no outside input)

HELD_BACK = """
SELECT coalesce(greatest(extract(epoch FROM
    greatest(max(paused_until), max(open_until)) - clock_timestamp()), 0), 0)::float8
FROM coolify_budget
"""

# Waits and starts that ended in the last five minutes, because one minute has too few.
SAMPLE = """
WITH minute AS (SELECT date_trunc('minute', clock_timestamp()) AS began),
starts AS (
    SELECT
        slot.platform,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.ended_at - d.created_at))
            FILTER (WHERE NOT d.leader AND NOT d.waited_for_image)::float8 AS warm,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.ended_at - d.created_at))
            FILTER (WHERE d.leader OR d.waited_for_image)::float8 AS cold
    FROM slots_deployment AS d JOIN slots_slot AS slot ON slot.id = d.slot_id
    WHERE d.id > (SELECT max(id) FROM slots_deployment) - 2000
    AND d.status = 'finished' AND d.ended_at > clock_timestamp() - interval '5 minutes'
    GROUP BY slot.platform
), waits AS (
    SELECT
        bot.platform,
        percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (
            ORDER BY greatest(0, extract(epoch FROM d.created_at - bot.created_at))::float8
        ) AS seconds
    FROM slots_deployment AS d JOIN bots_bot AS bot ON bot.id = d.bot_id
    WHERE d.id > (SELECT max(id) FROM slots_deployment) - 2000
    AND d.created_at > clock_timestamp() - interval '5 minutes'
    GROUP BY bot.platform
), counted AS (
    SELECT
        platform,
        count(*) FILTER (WHERE status = 'idle') AS idle,
        count(*) FILTER (WHERE status = 'deploying') AS deploying,
        count(*) FILTER (WHERE status = 'busy') AS busy,
        count(*) FILTER (WHERE status = 'stopping') AS stopping,
        count(*) FILTER (WHERE status = 'error') AS error
    FROM slots_slot GROUP BY platform
), line AS (
    SELECT platform, count(*) AS waiting FROM queues_queueentry GROUP BY platform
), started AS (
    SELECT
        slot.platform,
        count(*) FILTER (WHERE NOT d.leader AND NOT d.waited_for_image) AS warm_starts,
        count(*) FILTER (WHERE d.leader OR d.waited_for_image) AS cold_starts
    FROM minute, slots_deployment AS d JOIN slots_slot AS slot ON slot.id = d.slot_id
    WHERE d.id > (SELECT max(id) FROM slots_deployment) - 5000 AND d.status = 'finished'
    AND d.ended_at >= minute.began - interval '1 minute' AND d.ended_at < minute.began
    GROUP BY slot.platform
), events AS (
    SELECT bot.platform, event.from_status, event.to_status, bot.failure_cause
    FROM minute, bots_botevent AS event JOIN bots_bot AS bot ON bot.id = event.bot_id
    WHERE event.id > (SELECT max(id) FROM bots_botevent) - 20000
    AND event.at >= minute.began - interval '1 minute' AND event.at < minute.began
), asked AS (
    SELECT platform, count(*) AS requested FROM events WHERE from_status = '' GROUP BY platform
), failed AS (
    SELECT platform, jsonb_object_agg(cause, number) AS failures FROM (
        SELECT platform, coalesce(nullif(failure_cause, ''), 'unknown') AS cause,
            count(*) AS number
        FROM events WHERE to_status = 'FAILED' AND from_status <> 'FAILED' GROUP BY 1, 2
    ) AS causes GROUP BY platform
)
INSERT INTO botpool_poolsample (
    platform, minute, idle, deploying, busy, stopping, error, waiting,
    wait_p50, wait_p95, start_warm, start_cold,
    capacity, requested, warm_starts, cold_starts, failures
)
SELECT
    platform, minute.began,
    coalesce(idle, 0), coalesce(deploying, 0), coalesce(busy, 0), coalesce(stopping, 0),
    coalesce(error, 0), coalesce(waiting, 0), seconds[1], seconds[2], warm, cold,
    pools.size, coalesce(requested, 0), coalesce(warm_starts, 0), coalesce(cold_starts, 0),
    coalesce(failures, '{}')
FROM minute CROSS JOIN unnest(%(platforms)s::text[], %(sizes)s::int[]) AS pools (platform, size)
LEFT JOIN counted USING (platform) LEFT JOIN line USING (platform)
LEFT JOIN starts USING (platform) LEFT JOIN waits USING (platform)
LEFT JOIN started USING (platform) LEFT JOIN asked USING (platform)
LEFT JOIN failed USING (platform)
ON CONFLICT (platform, minute) DO NOTHING
"""

# Samples or shorter rollups added up. `rows` yields what `botpool_poolrollup` holds, of the periods
# that may not be complete yet.
_ROLLUP = """
WITH rows AS ({rows}), causes AS (
    SELECT platform, at, jsonb_object_agg(cause, number) AS failures FROM (
        SELECT platform, at, cause, sum(number::int) AS number
        FROM rows, jsonb_each_text(rows.failures) AS each (cause, number) GROUP BY 1, 2, 3
    ) AS summed GROUP BY platform, at
), added AS (
    SELECT platform, at, avg(in_use) AS in_use, max(capacity) AS capacity, max(waiting) AS waiting,
        avg(wait_p50) AS wait_p50, max(wait_p95) AS wait_p95, avg(start_warm) AS start_warm,
        avg(start_cold) AS start_cold, sum(requested) AS requested,
        sum(warm_starts) AS warm_starts, sum(cold_starts) AS cold_starts
    FROM rows GROUP BY platform, at
)
INSERT INTO botpool_poolrollup (
    platform, period, at, in_use, capacity, waiting, wait_p50, wait_p95, start_warm, start_cold,
    requested, warm_starts, cold_starts, failures
)
SELECT platform, '{period}', at, in_use, capacity, waiting, wait_p50, wait_p95, start_warm,
    start_cold, requested, warm_starts, cold_starts, coalesce(failures, '{{}}')
FROM added LEFT JOIN causes USING (platform, at)
ON CONFLICT (platform, period, at) DO UPDATE SET
    in_use = excluded.in_use, capacity = excluded.capacity, waiting = excluded.waiting,
    wait_p50 = excluded.wait_p50, wait_p95 = excluded.wait_p95,
    start_warm = excluded.start_warm, start_cold = excluded.start_cold,
    requested = excluded.requested, warm_starts = excluded.warm_starts,
    cold_starts = excluded.cold_starts, failures = excluded.failures
"""

ROLL_UP_HOURS = _ROLLUP.format(
    period="hour",
    rows="""
    SELECT platform, date_trunc('hour', minute, 'UTC') AS at, busy + deploying + stopping AS in_use,
        capacity, waiting, wait_p50, wait_p95, start_warm, start_cold, requested, warm_starts,
        cold_starts, failures
    FROM botpool_poolsample
    WHERE minute >= date_trunc('hour', clock_timestamp() - interval '1 hour', 'UTC')
""",
)

ROLL_UP_DAYS = _ROLLUP.format(
    period="day",
    rows="""
    SELECT platform, date_trunc('day', at, 'UTC') AS at, in_use, capacity, waiting, wait_p50,
        wait_p95, start_warm, start_cold, requested, warm_starts, cold_starts, failures
    FROM botpool_poolrollup
    WHERE period = 'hour'
        AND at >= date_trunc('day', clock_timestamp() - interval '1 day', 'UTC')
""",
)
