import socket
from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import DateTimeField, Value
from django.db.models.functions import Now
from django.test import Client

from core.clock import database_now
from core.jobs.jobs import WORKER_HEARTBEAT
from core.jobs.ticker import LEASE, LEASE_TTL, Ticker
from core.leases import Lease, acquire_lease

pytestmark = pytest.mark.django_db


@pytest.fixture
def working():
    """A worker and a ticker that were seen just now."""
    Lease.objects.create(key=WORKER_HEARTBEAT, finished_at=Now())
    acquire_lease(LEASE, ttl=LEASE_TTL)


@pytest.fixture
def now(monkeypatch):
    """The database's clock, stopped, because the machine may be slow."""
    moment = database_now()
    monkeypatch.setattr("core.jobs.liveness.Now", lambda: Value(moment, DateTimeField()))
    return moment


def reasons(client) -> dict[str, str]:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    return answer.json()["reasons"]


def test_healthz_needs_nothing_but_the_process(client):
    answer = client.get("/healthz")

    assert answer.status_code == 200
    assert answer.json() == {"alive": True}


def test_it_is_ready_when_worker_and_ticker_work(client, working):
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "reasons": {}}


def test_it_is_not_ready_before_worker_and_ticker_were_seen(client):
    assert set(reasons(client)) == {"worker", "ticker"}


def test_it_names_a_worker_that_fell_silent(client, working, now):
    Lease.objects.filter(key=WORKER_HEARTBEAT).update(finished_at=now - timedelta(seconds=77))

    assert reasons(client) == {"worker": "no worker has run the heartbeat for 77 s"}


def test_it_names_a_ticker_that_fell_silent(client, working, now):
    last_extended = now - timedelta(seconds=55)
    Lease.objects.filter(key=LEASE).update(expires_at=last_extended + LEASE_TTL)

    assert reasons(client) == {"ticker": "no ticker has led for 55 s"}


def test_it_is_ready_while_another_ticker_may_take_over(client, working, now):
    last_extended = now - timedelta(seconds=5)
    Lease.objects.filter(key=LEASE).update(expires_at=last_extended + LEASE_TTL)

    assert client.get("/readyz").status_code == 200


def test_it_says_when_the_last_ticker_was_stopped(client, working):
    Lease.objects.filter(key=LEASE).delete()
    ticker = Ticker()
    ticker.tick()
    ticker._step_down()

    assert reasons(client) == {"ticker": "no ticker leads (manage.py ticker)"}


def test_it_names_missing_migrations(client, working):
    MigrationRecorder.Migration.objects.filter(app="botpool").delete()

    assert "botpool.0001_" in reasons(client)["migrations"]


@pytest.mark.django_db(transaction=True)
def test_it_names_an_unreachable_database(client, monkeypatch):
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    try:
        reason = reasons(client)["database"]
        assert "PostgreSQL does not answer" in reason
        assert "port" not in reason  # public endpoint
        assert client.get("/healthz").status_code == 200
    finally:
        monkeypatch.undo()
        connection.close()


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_silent_database_does_not_hang_the_probe(client, monkeypatch):
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
def test_a_probe_may_use_any_host_name(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_an_unknown_host_is_refused_without_logging_an_error(client, caplog):
    assert client.get("/login/", headers={"host": "evil.example"}).status_code == 400
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_a_probe_is_read_only(path):
    answer = Client(enforce_csrf_checks=True).post(path)
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
