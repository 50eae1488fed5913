"""A run is held for as long as its worker lives, and only a little longer."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from core.clock import database_now
from core.jobs import jobs
from core.jobs.jobs import Work, ask_for_due_jobs
from core.leases import Lease
from tests.processes import wait_until

NAME = "long work"
may_end = threading.Event()

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def work_until_told() -> None:
    assert may_end.wait(60)


@pytest.fixture
def under_way(monkeypatch, settings):
    settings.TEST_INTERVAL = timedelta()
    settings.LOCK_TTL = timedelta(seconds=1)
    only = Work(name=NAME, function=f"{__name__}.work_until_told", interval="TEST_INTERVAL")
    monkeypatch.setattr("botpool.schedule.WORKS", (only,))
    may_end.clear()
    ask_for_due_jobs()
    worker = threading.Thread(target=_run)
    worker.start()
    wait_until(lambda: row().holder, what="the run begins")
    yield
    may_end.set()
    worker.join()


def _run() -> None:
    jobs.run(NAME)
    connection.close()


def row() -> Lease:
    return Lease.objects.get(key=NAME)


def test_a_run_is_held_for_longer_than_its_lease_while_it_goes_on(under_way):
    begun = row()
    wait_until(lambda: row().expires_at > begun.expires_at, what="the run is kept")
    assert (row().holder, row().fence) == (begun.holder, begun.fence)


def test_a_run_whose_worker_was_killed_is_over_in_seconds(under_way):
    assert row().expires_at - database_now() <= timedelta(seconds=1)
