"""Adds history to counters, which survive the pruning of that history.

Each kind of history is counted up to a point in time, which is stored in the same transaction as
the counts. A row becomes visible when its transaction commits, which may be later than the time in
the row. A pass therefore stops at the start of the oldest open transaction. Nothing is counted
twice or missed, whichever process counts and whenever it is killed.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from botpool.telemetry.counter import TallyMark
from core.sql import fetch_one

# Seconds: from a slot assigned at once to a pull that takes as long as allowed.
BUCKETS = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0]
BUCKETS += [300.0, 420.0, 600.0, 900.0, 1500.0]

# Five seconds, because a statement that has just begun may not show as open yet. A transaction
# that has only read for a minute has no uncommitted row with an older time.
_COUNTABLE_UNTIL = """
SELECT least(clock_timestamp() - interval '5 seconds', min(xact_start)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND (backend_xid IS NOT NULL OR xact_start > clock_timestamp() - interval '1 minute')
"""

# `observed` yields a name, labels and, for a histogram, seconds.
_COUNT = """
WITH observed (name, labels, seconds) AS ({observed}), placed AS (
    SELECT name, seconds, CASE WHEN seconds IS NULL THEN labels ELSE labels || jsonb_build_object(
        'le', (SELECT min(bound) FROM unnest(%(buckets)s::float8[]) AS bound WHERE bound >= seconds)
    ) END AS labels, labels AS labels_of_sum
    FROM observed
), counted AS (
    SELECT name, labels, count(*)::float8 AS total FROM placed GROUP BY 1, 2
    UNION ALL
    SELECT name || '_sum', labels_of_sum, sum(seconds) FROM placed
    WHERE seconds IS NOT NULL GROUP BY 1, 2
)
INSERT INTO botpool_tally AS tally (name, labels, total)
SELECT name, labels, total FROM counted
ON CONFLICT (name, labels) DO UPDATE SET total = tally.total + excluded.total
"""

_EVENTS = """
WITH fresh AS (
    SELECT event.id, event.bot_id, event.at, event.from_status, event.to_status,
        bot.platform, bot.failure_kind
    FROM bots_botevent AS event JOIN bots_bot AS bot ON bot.id = event.bot_id
    WHERE event.at >= %(since)s AND event.at < %(until)s
        AND event.from_status <> event.to_status
)
SELECT 'bots_requested', jsonb_build_object('platform', platform), NULL::float8
FROM fresh WHERE from_status = ''
UNION ALL
SELECT 'bots_ended', jsonb_build_object(
    'platform', platform, 'status', to_status, 'failure', failure_kind), NULL
FROM fresh WHERE to_status IN ('DONE', 'FAILED', 'CANCELLED')
UNION ALL
SELECT CASE WHEN fresh.to_status = 'DEPLOYING' THEN 'bot_wait_seconds' ELSE 'bot_start_seconds' END,
    jsonb_build_object('platform', platform),
    greatest(extract(epoch FROM fresh.at - began.at), 0)::float8
FROM fresh CROSS JOIN LATERAL (
    -- A wait begins with the request, or when the bot has to be placed again. A start begins
    -- when the bot gets a slot.
    SELECT at FROM bots_botevent AS earlier
    WHERE earlier.bot_id = fresh.bot_id AND earlier.id < fresh.id
        AND CASE WHEN fresh.to_status = 'DEPLOYING' THEN earlier.from_status IN ('', 'DEPLOYING')
            ELSE earlier.to_status = 'DEPLOYING' END
    ORDER BY earlier.id DESC LIMIT 1
) AS began
WHERE fresh.to_status = 'DEPLOYING'
    OR (fresh.to_status = 'JOINING_CALL' AND fresh.from_status = 'DEPLOYING')
"""

_TRANSITIONS = """
SELECT 'slot_transitions',
    jsonb_build_object('from', from_status, 'to', to_status), NULL::float8
FROM slots_slottransition WHERE at >= %(since)s AND at < %(until)s AND from_status <> to_status
"""

_DEPLOYMENTS = """
WITH fresh AS (
    SELECT bot.platform, deployment.status, deployment.failure_cause,
        extract(epoch FROM deployment.ended_at - deployment.created_at)::float8 AS seconds,
        CASE WHEN leader THEN 'pulled' WHEN waited_for_image THEN 'waited' ELSE 'warm' END AS image
    FROM slots_deployment AS deployment JOIN bots_bot AS bot ON bot.id = deployment.bot_id
    WHERE deployment.ended_at >= %(since)s AND deployment.ended_at < %(until)s
)
SELECT 'deployments', jsonb_build_object('platform', platform, 'result', status, 'reason',
    failure_cause), NULL::float8
FROM fresh
UNION ALL
SELECT 'deployment_images', jsonb_build_object('platform', platform, 'image', image), NULL
FROM fresh WHERE status = 'finished'
UNION ALL
SELECT 'deployment_seconds', jsonb_build_object('platform', platform, 'image', image), seconds
FROM fresh WHERE status = 'finished'
"""

_FINDINGS = """
SELECT 'findings', jsonb_build_object(
    'kind', kind, 'outcome', CASE WHEN acted_at IS NULL THEN 'passed' ELSE 'repaired' END
), NULL::float8
FROM slots_finding WHERE ended_at >= %(since)s AND ended_at < %(until)s
"""

_NOTIFICATIONS = """
SELECT 'notifications', jsonb_build_object('result', status), NULL::float8
FROM botpool_message WHERE ended_at >= %(since)s AND ended_at < %(until)s
"""


@dataclass(frozen=True, kw_only=True)
class Source:
    name: str
    observed: str


EVENTS = Source(name="bot events", observed=_EVENTS)
TRANSITIONS = Source(name="slot transitions", observed=_TRANSITIONS)
DEPLOYMENTS = Source(name="deployments", observed=_DEPLOYMENTS)
FINDINGS = Source(name="findings", observed=_FINDINGS)
NOTIFICATIONS = Source(name="notifications", observed=_NOTIFICATIONS)
SOURCES = (EVENTS, TRANSITIONS, DEPLOYMENTS, FINDINGS, NOTIFICATIONS)


def count_history() -> None:
    """Count everything that is new since the last pass."""
    for source in SOURCES:
        _count(source)


def _count(source: Source) -> None:
    TallyMark.objects.get_or_create(source=source.name)
    with transaction.atomic():
        mark = TallyMark.objects.select_for_update().get(source=source.name)
        until = _countable_until()
        if mark.counted_until is not None and until <= mark.counted_until:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                _COUNT.format(observed=source.observed),
                {
                    "since": mark.counted_until or "-infinity",
                    "until": until,
                    "buckets": BUCKETS,
                },
            )
        TallyMark.objects.filter(pk=mark.pk).update(counted_until=until)


def _countable_until() -> datetime:
    row = fetch_one(_COUNTABLE_UNTIL, {})
    assert row is not None
    until: datetime = row[0]
    return until
