"""A database that answers but cannot be written to: a standby, a read-only role, a full disk."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from api.keys import create_api_key
from core.jobs.jobs import WORKER_HEARTBEAT
from core.jobs.ticker import LEASE, LEASE_TTL
from core.leases import Lease, acquire_lease
from tests.log_lines import log_lines

pytestmark = pytest.mark.django_db(transaction=True)

MEETING = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture(autouse=True)
def _working(monkeypatch):
    monkeypatch.setattr("botpool.telemetry.health.DISK_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr("botpool.telemetry.health._disk.next_check", 0.0)
    Lease.objects.create(key=WORKER_HEARTBEAT, finished_at=Now())
    acquire_lease(LEASE, ttl=LEASE_TTL)
    yield
    connection.close()  # with what was set in it


@contextmanager
def read_only():
    execute("SET default_transaction_read_only = on")
    yield
    execute("SET default_transaction_read_only = off")


@contextmanager
def role_that_may_only_read():
    execute("CREATE ROLE reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    execute("SET ROLE reader")
    yield
    execute("RESET ROLE; DROP OWNED BY reader; DROP ROLE reader")


@contextmanager
def role_without(right: str):
    execute("CREATE ROLE app; GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
    execute(f"REVOKE {right} FROM app")
    execute("SET ROLE app")
    yield
    execute("RESET ROLE; DROP OWNED BY app; DROP ROLE app")


def reason(client) -> str:
    answer = client.get("/readyz")
    assert answer.status_code == 503, answer.json()
    return answer.json()["reasons"]["database"]


def test_a_database_that_can_be_written_is_ready(client):
    assert client.get("/readyz").json() == {"ready": True, "reasons": {}}


def test_a_read_only_database_is_not_ready(client):
    with read_only():
        assert "read-only" in reason(client)


def test_a_role_without_the_right_to_write_is_not_ready(client):
    with role_that_may_only_read():
        assert "may not write" in reason(client)


@pytest.mark.parametrize(
    "right", ["SELECT ON bots_apikey", "UPDATE ON bots_apikey", "DELETE ON queues_queueentry"]
)
def test_a_role_without_a_right_that_calls_need_is_not_ready(client, right):
    with role_without(right):
        assert "grant it SELECT, INSERT, UPDATE, DELETE" in reason(client)


@contextmanager
def role_that_finds_no_tables():
    execute("CREATE ROLE app; GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
    execute("REVOKE USAGE ON SCHEMA public FROM app, PUBLIC")
    execute("SET ROLE app")
    yield
    execute("RESET ROLE; GRANT USAGE ON SCHEMA public TO PUBLIC; DROP OWNED BY app; DROP ROLE app")


@contextmanager
def missing_table():
    execute("ALTER TABLE bots_apikey RENAME TO gone")
    yield
    execute("ALTER TABLE gone RENAME TO bots_apikey")


def test_a_role_that_finds_no_tables_is_told_so(client):
    """Not to migrate: the tables are there."""
    with role_that_finds_no_tables():
        assert "grant it USAGE on their schema" in reason(client)


def test_a_database_without_a_table_is_not_ready(client):
    with missing_table():
        assert "some of Botpool's tables are missing" in reason(client)


def test_a_role_without_a_right_that_pages_need_is_not_ready(client):
    with role_without("SELECT ON django_session"):
        assert "grant it SELECT, INSERT, UPDATE, DELETE" in reason(client)


def test_a_role_that_does_not_own_the_tables_is_ready(client):
    with role_without("TRUNCATE ON bots_bot"):
        assert client.get("/readyz").json() == {"ready": True, "reasons": {}}


def test_a_full_disk_is_not_ready(client, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a small file system")
    small = Path("/tmp") / f"botpool-full-{os.getpid()}"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]).returncode:
        small.rmdir()
        pytest.skip("needs the right to mount, for a small file system")
    try:
        (small / "data").mkdir()
        shutil.chown(small / "data", "nobody")
        execute(f"CREATE TABLESPACE small LOCATION '{small / 'data'}'")
        execute("SET temp_tablespaces = 'small'")
        assert client.get("/readyz").status_code == 200
        with (small / "rest").open("wb") as rest, pytest.raises(OSError, match="No space"):
            while True:
                os.write(rest.fileno(), b"x" * 4096)
        assert "disk" in reason(client)
    finally:
        (small / "rest").unlink(missing_ok=True)
        execute("SET temp_tablespaces = ''")
        execute("DROP TABLESPACE IF EXISTS small")
        subprocess.run(["umount", str(small)], check=True)
        small.rmdir()


@pytest.mark.parametrize(
    "obstacle",
    [read_only, role_that_may_only_read, role_that_finds_no_tables, missing_table],
)
def test_the_api_answers_that_it_is_unavailable(obstacle):
    key = create_api_key(name="client")
    client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {key}"})
    with obstacle():
        answer = client.post("/api/v1/bots", MEETING, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json")
    assert answer["Retry-After"]


@pytest.mark.parametrize("obstacle", [read_only, role_that_may_only_read])
def test_pages_answer_that_they_are_unavailable(obstacle):
    User.objects.create_user("otto", password="correct horse")
    client = Client(raise_request_exception=False)
    with obstacle():
        answer = client.post("/login/", {"username": "otto", "password": "correct horse"})
    assert answer.status_code == 503
    assert answer["Retry-After"]
    assert "database" in answer.text


def test_a_page_during_an_outage_logs_one_line_without_a_traceback(monkeypatch):
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("otto"))
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    try:
        with log_lines() as lines:
            assert client.get("/").status_code == 503
    finally:
        monkeypatch.undo()
        connection.close()
    [line] = lines
    assert "A page cannot reach or change the database: /: " in line["message"]
    assert "exception" not in line


def test_any_other_error_stays_an_error(monkeypatch):
    client = Client(raise_request_exception=False)
    monkeypatch.setattr("botpool.telemetry.views.reasons_not_to_serve", lambda: 1 / 0)
    answer = client.get("/readyz")
    assert answer.status_code == 500
    assert "Something went wrong" in answer.text
