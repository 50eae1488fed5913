"""Counting while other transactions are open."""

import time

import psycopg
import pytest
from django.db import connection

from botpool.telemetry import counters
from botpool.telemetry.counter import Tally, TallyMark
from botpool.telemetry.counters import EVENTS, count_history
from tests.factories import BotFactory
from tests.processes import wait_until

INSERT = """
INSERT INTO bots_botevent (bot_id, at, from_status, to_status, reason, actor, correlation_id,
    slot_name, coolify_uuid) VALUES (%s, clock_timestamp(), '', 'PENDING', '', '', '', '', '')
"""


def requested() -> float:
    return sum(Tally.objects.filter(name="bots_requested").values_list("total", flat=True))


@pytest.fixture
def short_margin(monkeypatch):
    shorter = counters._COUNTABLE_UNTIL.replace("5 seconds", "100 milliseconds")
    monkeypatch.setattr(counters, "_COUNTABLE_UNTIL", shorter)


@pytest.mark.django_db(transaction=True)
def test_an_event_that_commits_late_is_still_counted(short_margin):
    first, second = BotFactory.create_batch(2)
    parameters = connection.get_connection_params()
    wanted = {name: parameters[name] for name in ("dbname", "user", "host", "port")}
    with psycopg.connect(**{k: v for k, v in wanted.items() if v}) as late:
        late.execute(INSERT, [first.pk])
        with connection.cursor() as cursor:
            cursor.execute(INSERT, [second.pk])
        time.sleep(0.2)  # longer than the margin
        count_history()
        assert requested() == 0
    wait_until(lambda: count_history() or requested() >= 2, what="both are counted")
    assert requested() == 2


@pytest.mark.django_db
def test_it_remembers_how_far_it_has_counted():
    count_history()
    before = TallyMark.objects.get(source=EVENTS.name).counted_until
    assert before is not None
    time.sleep(0.01)
    count_history()
    assert TallyMark.objects.get(source=EVENTS.name).counted_until > before
