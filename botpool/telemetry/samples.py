"""One row per platform and minute, the data of the charts."""

from datetime import timedelta

from django.db import connection
from django.db.models.functions import Now

from bots.status import Platform
from dashboard.models import PoolSample

KEEP = timedelta(days=2)

# Waits and starts that ended in the last five minutes, because one minute has too few.
_SAMPLE = """
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
)
INSERT INTO botpool_poolsample (
    platform, minute, idle, deploying, busy, stopping, error, waiting,
    wait_p50, wait_p95, start_warm, start_cold
)
SELECT
    platform, minute.began,
    coalesce(idle, 0), coalesce(deploying, 0), coalesce(busy, 0), coalesce(stopping, 0),
    coalesce(error, 0), coalesce(waiting, 0), seconds[1], seconds[2], warm, cold
FROM minute CROSS JOIN unnest(%(platforms)s::text[]) AS platform
LEFT JOIN counted USING (platform) LEFT JOIN line USING (platform)
LEFT JOIN starts USING (platform) LEFT JOIN waits USING (platform)
ON CONFLICT (platform, minute) DO NOTHING
"""


def sample_pools() -> None:
    """Write this minute's rows, unless they exist, and delete the oldest ones."""
    with connection.cursor() as cursor:
        cursor.execute(_SAMPLE, {"platforms": Platform.values})
    PoolSample.objects.filter(minute__lt=Now() - KEEP).delete()
