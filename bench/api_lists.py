"""GET /api/v1/bots with a million bots, compared with two thousand.

Runs in one process with all of Django. Only the database's share could grow with the table, and
it should not.
"""

import time
from statistics import median

from django.db import connection
from django.test import Client

from api.keys import create_api_key
from bench.table import Row

FEW, MANY = 2_000, 1_000_000
CALLS = 40
QUERIES = {
    "all": "",
    "by status": "status=DONE",
    "by platform": "platform=zoom",
    "by both": "status=FAILED&platform=zoom",
    "a page in the middle": "status=DONE&cursor={middle:x}",
}

# One in ten is on Zoom, and half of those failed: FEW bots still fill a page of each.
_FILL = """
INSERT INTO bots_bot (
    correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout, status,
    previous_status, failure_reason, failure_kind, failure_cause, placements, slot_name,
    coolify_service_uuid, ended_at
)
SELECT
    md5(n::text), CASE WHEN n %% 10 = 0 THEN 'zoom' ELSE 'teams' END,
    'https://example.com/' || n, 'Notetaker', '{"language": "en"}', 100, interval '5 min',
    CASE WHEN n %% 20 = 0 THEN 'FAILED' ELSE 'DONE' END, 'IN_CALL',
    CASE WHEN n %% 20 = 0 THEN 'Refused' ELSE '' END,
    CASE WHEN n %% 20 = 0 THEN 'meeting' ELSE '' END,
    CASE WHEN n %% 20 = 0 THEN 'reported_by_bot' ELSE '' END,
    1, 'pool-teams-001', 'app-1', now()
FROM generate_series(1, %s) AS n
"""


def run() -> list[Row]:
    client = Client(
        headers={"Authorization": f"Bearer {create_api_key(name='lists')}", "Host": "localhost"}
    )
    before = _times(client, bots=FEW)
    many = _times(client, bots=MANY)
    after = _times(client, bots=FEW)
    # Take the faster of two: the previous benchmark may have disturbed the first.
    few = {name: min(before[name], after[name]) for name in QUERIES}
    return [
        Row(
            figure=f"GET /bots, {name}, of {MANY:,} bots",
            value=f"{many[name]:.1f} ms",
            reference=f"of {FEW:,}: {few[name]:.1f} ms",
            ratio=many[name] / few[name],
            aim="at most 2",
            met=many[name] / few[name] <= 2,
        )
        for name in QUERIES
    ]


def _times(client: Client, *, bots: int) -> dict[str, float]:
    """The median time of each list in milliseconds, measured in turns."""
    _fill(bots)
    with connection.cursor() as cursor:
        cursor.execute("SELECT (min(id) + max(id)) / 2 FROM bots_bot")
        (middle,) = cursor.fetchone()
    times: dict[str, list[float]] = {name: [] for name in QUERIES}
    for _ in range(CALLS):
        for name, query in QUERIES.items():
            begin = time.perf_counter()
            answer = client.get(f"/api/v1/bots?limit=50&{query.format(middle=middle)}")
            times[name].append(1000 * (time.perf_counter() - begin))
            assert answer.status_code == 200, answer.content
    return {name: median(taken) for name, taken in times.items()}


def _fill(bots: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bots_bot CASCADE")
        cursor.execute(_FILL, [bots])
        cursor.execute("VACUUM ANALYZE bots_bot")
        cursor.execute("CHECKPOINT")  # a later checkpoint would disturb the measurement
