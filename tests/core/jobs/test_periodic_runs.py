"""A run is held for as long as its worker lives, and little longer."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from core.clock import database_now
from core.jobs import periodic
from core.jobs.periodic import PeriodicWork, Work, ask_for_due_work
from tests.processes import wait_until

NAME = "long work"
may_end = threading.Event()

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def work_until_told() -> None:
    assert may_end.wait(60)


@pytest.fixture
def under_way(monkeypatch, settings):
    settings.TEST_INTERVAL = timedelta()
    only = Work(name=NAME, function=f"{__name__}.work_until_told", interval="TEST_INTERVAL")
    monkeypatch.setattr("botpool.schedule.WORKS", (only,))
    monkeypatch.setattr(periodic, "RUN_LEASE", timedelta(seconds=1))
    may_end.clear()
    ask_for_due_work()
    worker = threading.Thread(target=_run)
    worker.start()
    wait_until(lambda: row().running_by, what="the run begins")
    yield
    may_end.set()
    worker.join()


def _run() -> None:
    periodic.run(NAME)
    connection.close()


def row() -> PeriodicWork:
    return PeriodicWork.objects.get(name=NAME)


def test_a_run_is_held_for_longer_than_its_lease_while_it_goes_on(under_way):
    begun = row()
    wait_until(lambda: row().running_until > begun.running_until, what="the run is kept")
    assert row().running_by == begun.running_by


def test_a_run_whose_worker_was_killed_is_over_in_seconds(under_way):
    assert row().running_until - database_now() <= timedelta(seconds=1)
