"""What starts wait for is read by index: the table of deployments grows without bound."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pool.waiting.starts import starts_of
from slots.deployment import Deployment
from tests.queued import ask

MANY = """
INSERT INTO slots_deployment (
    slot_id, slot_name, bot_id, epoch, image, server_uuid, status, created_at, ended_at
)
SELECT 0, 'pool-teams-001', bot_id, 1, image, server_uuid, 'finished', now(), now()
FROM slots_deployment, generate_series(1, 20000)
"""


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.mark.django_db
def test_beside_a_long_history_only_active_deployments_are_read():
    bot = ask()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # no checks of the slot
        cursor.execute(MANY)
        cursor.execute("ANALYZE slots_deployment")
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert starts_of([bot.pk])[bot.pk].line_length == 1
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT json) {seen[0]['sql']}")
        (plan,) = cursor.fetchone()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    read = [node for node in nodes(plan[0]["Plan"]) if node["Node Type"] == "Seq Scan"]
    assert [node for node in read if node["Relation Name"] == Deployment._meta.db_table] == []
