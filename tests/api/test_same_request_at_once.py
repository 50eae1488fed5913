"""The same request several times at once, on separate connections."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from api.keys import create_api_key
from bots.models import Bot
from tests.api.conftest import MEETING, Api
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 8


def ask_at_once(key, body, headers):
    barrier = threading.Barrier(AT_ONCE)

    def ask(_):
        try:
            barrier.wait()
            return Api(key).post("bots", body, **headers)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as clients:
        return list(clients.map(ask, range(AT_ONCE)))


@pytest.fixture
def key():
    for _ in range(AT_ONCE):
        SlotFactory()
    return create_api_key(name="app")


def test_without_a_key_each_request_gets_its_own_bot(key):
    ask_at_once(key, {"meetingUrl": MEETING}, {})
    assert Bot.objects.count() == AT_ONCE


def test_with_one_idempotency_key_they_get_one_bot(key):
    answers = ask_at_once(key, {"meetingUrl": MEETING}, {"Idempotency-Key": "order-1"})
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["bot"]["id"] for answer in answers}) == 1
    assert Bot.objects.count() == 1


def test_with_one_dedupe_key_they_get_one_bot(key):
    answers = ask_at_once(key, {"meetingUrl": MEETING, "dedupeKey": "standup"}, {})
    assert sorted(answer.status_code for answer in answers) == [200] * (AT_ONCE - 1) + [201]
    assert Bot.objects.count() == 1


def test_a_rate_limit_spans_all_connections(key, settings):
    settings.API_RATE_LIMIT = 3
    answers = ask_at_once(key, {"meetingUrl": MEETING}, {})
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [429] * (AT_ONCE - 3)
