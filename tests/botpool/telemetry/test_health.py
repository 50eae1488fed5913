import socket
from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import DateTimeField, Value
from django.db.models.functions import Now

from core.clock import database_now
from core.jobs.periodic import WORKER_HEARTBEAT, PeriodicWork
from core.jobs.ticker import TickerLease

pytestmark = pytest.mark.django_db


@pytest.fixture
def working():
    """A worker and a ticker that showed themselves just now."""
    PeriodicWork.objects.create(name=WORKER_HEARTBEAT, finished_at=Now())
    TickerLease.objects.create(holder="somebody", seen_at=Now())


@pytest.fixture
def now(monkeypatch):
    """The database's clock, which stands still however slow the machine is."""
    moment = database_now()
    monkeypatch.setattr("core.jobs.liveness.Now", lambda: Value(moment, DateTimeField()))
    return moment


def reasons(client) -> dict[str, str]:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    return answer.json()["reasons"]


def test_a_living_process_says_so_whatever_else_is_missing(client):
    answer = client.get("/healthz")

    assert answer.status_code == 200
    assert answer.json() == {"alive": True}


def test_it_is_ready_when_worker_and_ticker_work(client, working):
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "reasons": {}}


def test_it_is_not_ready_before_a_worker_and_a_ticker_were_seen(client):
    assert set(reasons(client)) == {"worker", "ticker"}


def test_it_names_a_worker_that_fell_silent(client, working, now):
    PeriodicWork.objects.update(finished_at=now - timedelta(seconds=77))

    assert reasons(client) == {"worker": "no worker has run the heartbeat for 77 s"}


def test_it_names_a_ticker_that_fell_silent(client, working, now):
    TickerLease.objects.update(seen_at=now - timedelta(seconds=55))

    assert reasons(client) == {"ticker": "no ticker has led for 55 s"}


def test_it_names_migrations_that_wait(client, working):
    MigrationRecorder.Migration.objects.filter(app="botpool").delete()

    assert "botpool.0001_" in reasons(client)["migrations"]


@pytest.mark.django_db(transaction=True)
def test_it_names_a_database_that_is_away(client, monkeypatch):
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    try:
        told = reasons(client)["database"]
        assert "PostgreSQL does not answer" in told
        assert "port" not in told  # whoever asks may be anybody
        assert client.get("/healthz").status_code == 200
    finally:
        monkeypatch.undo()
        connection.close()


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_database_that_accepts_and_says_nothing_holds_no_probe_up(client, monkeypatch):
    connection.close()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        monkeypatch.setitem(connection.settings_dict, "PORT", str(silent.getsockname()[1]))
        try:
            assert "PostgreSQL does not answer" in reasons(client)["database"]
        finally:
            monkeypatch.undo()
            connection.close()


@pytest.mark.parametrize("host", ["10.1.2.3", "pod-7.cluster.local:8000"])
def test_a_probe_may_call_the_machine_by_any_name(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_a_page_under_a_foreign_name_is_refused_without_an_error_in_the_log(client, caplog):
    assert client.get("/login/", headers={"host": "evil.example"}).status_code == 400
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
