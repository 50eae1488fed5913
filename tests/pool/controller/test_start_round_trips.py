"""How many round trips to PostgreSQL lie between a request and Coolify's start: each costs a bot's
meeting time, on every machine."""

import pytest
from django.db import connection

from coolify.client import Coolify
from core.jobs.jobs import ask, run
from slots.locks import slot_key
from slots.models import Slot

pytestmark = pytest.mark.django_db(transaction=True)


class RoundTrips:
    def __init__(self):
        self.count = 0

    def __call__(self, execute, *arguments):
        self.count += 1
        return execute(*arguments)


@pytest.fixture
def warm_slot(pool):
    """Idle, and its image is on its server."""
    pool.request(meetingSeconds=1)
    pool.until(pool.all_idle)
    return Slot.objects.get()


def test_a_warm_start_takes_few_round_trips(pool, warm_slot, monkeypatch):
    trips, at_start = RoundTrips(), []
    start = Coolify.start

    def noting(coolify, uuid):
        at_start.append(trips.count)
        return start(coolify, uuid)

    monkeypatch.setattr(Coolify, "start", noting)
    key = slot_key(warm_slot.pk)
    ask([key])
    run(key)
    pool.request()
    with connection.execute_wrapper(trips):
        ask([key])
        to_ask = trips.count
        run(key)
    # BEGIN and COMMIT are not counted.
    assert to_ask <= 5
    assert at_start[0] - to_ask <= 22
