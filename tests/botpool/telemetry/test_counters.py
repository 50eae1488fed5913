"""Counting while other transactions are open."""

import time

import psycopg
import pytest
from django.db import connection

from botpool.telemetry.counter import Tally, TallyMark
from botpool.telemetry.counters import EVENTS, count_history
from tests.factories import BotFactory

INSERT = """
INSERT INTO bots_botevent (bot_id, at, from_status, to_status, reason, actor, correlation_id,
    slot_name, coolify_uuid) VALUES (%s, clock_timestamp(), '', 'PENDING', '', '', '', '', '')
"""


def requested() -> float:
    return sum(Tally.objects.filter(name="bots_requested").values_list("total", flat=True))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_event_that_commits_late_is_still_counted():
    first, second = BotFactory.create_batch(2)
    parameters = connection.get_connection_params()
    wanted = {name: parameters[name] for name in ("dbname", "user", "host", "port")}
    with psycopg.connect(**{k: v for k, v in wanted.items() if v}) as late:
        late.execute(INSERT, [first.pk])
        with connection.cursor() as cursor:
            cursor.execute(INSERT, [second.pk])
        time.sleep(6)  # longer than the margin of five seconds
        count_history()
        assert requested() == 0
    time.sleep(6)
    count_history()
    assert requested() == 2


@pytest.mark.django_db
def test_it_remembers_how_far_it_has_counted():
    count_history()
    before = TallyMark.objects.get(source=EVENTS.name).counted_until
    assert before is not None
    time.sleep(0.01)
    count_history()
    assert TallyMark.objects.get(source=EVENTS.name).counted_until > before
