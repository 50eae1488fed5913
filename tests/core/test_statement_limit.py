"""A statement of a request that takes too long ends, whether or not the server answers."""

import os
import signal
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client

from api.keys import create_api_key
from botpool import request_limits
from core.statement_limit import limit_statements

pytestmark = pytest.mark.django_db(transaction=True)

SHORT = timedelta(milliseconds=200)
MEETING = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}


@pytest.fixture
def limited():
    connection.ensure_connection()
    limit_statements(SHORT)
    yield
    limit_statements(None)
    connection.close()


def execute(sql: str):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None


@contextmanager
def frozen(pid: int):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def locked(table: str):
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table}")
        yield
    finally:
        holder.close()


# --- The connection ----------------------------------------------------------------------------


def test_a_statement_that_takes_too_long_is_cancelled(limited):
    pid = execute("SELECT pg_backend_pid()")
    with pytest.raises(OperationalError, match="a statement was cancelled"):
        execute("SELECT pg_sleep(60)")
    assert execute("SELECT pg_backend_pid()") == pid  # the connection is still good


def test_a_server_that_does_not_answer_is_given_up(limited):
    with frozen(execute("SELECT pg_backend_pid()")):
        with pytest.raises(OperationalError, match=r"no answer to a statement within 0.2 s"):
            execute("SELECT 1")
        connection.close_if_unusable_or_obsolete()
        assert execute("SELECT 1") == 1  # on a new connection


def test_a_commit_is_limited_as_well(limited):
    connection.set_autocommit(False)
    with frozen(execute("SELECT pg_backend_pid()")), pytest.raises(OperationalError):
        connection.commit()


def test_outside_a_request_nothing_is_limited():
    execute("SELECT pg_sleep(0.5)")


def test_waiting_for_a_notice_is_not_limited(limited):
    began = time.monotonic()
    assert list(connection.connection.notifies(timeout=0.5)) == []
    assert time.monotonic() - began >= 0.5


# --- Requests ----------------------------------------------------------------------------------


def test_a_call_that_waits_for_a_locked_table_is_answered_with_503(settings):
    client = Client(headers={"Authorization": f"Bearer {create_api_key(name='client')}"})
    settings.STATEMENT_LIMIT = SHORT
    with locked("bots_bot"):
        answer = client.post("/api/v1/bots", MEETING, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json")
    assert answer["Retry-After"]
    answer = client.post("/api/v1/bots", MEETING, content_type="application/json")
    assert answer.status_code == 201


def test_a_page_that_waits_for_a_locked_table_is_answered_with_503(settings):
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("otto"))
    settings.STATEMENT_LIMIT = SHORT
    with locked("bots_bot"):
        answer = client.get("/bots/")
    assert answer.status_code == 503
    assert answer["Retry-After"]


def test_after_a_request_the_thread_has_no_limit(client, settings):
    settings.STATEMENT_LIMIT = SHORT
    client.get("/healthz")
    execute("SELECT pg_sleep(0.5)")


def test_what_is_streamed_is_limited_too(settings, monkeypatch):
    monkeypatch.setattr(request_limits, "LONGER", 1)
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("otto"))
    settings.STATEMENT_LIMIT = SHORT
    answer = client.get("/bots/?format=csv")
    with locked("bots_bot"), pytest.raises(OperationalError, match="a statement was cancelled"):
        b"".join(answer.streaming_content)
    answer.close()


@pytest.mark.parametrize(
    ("path", "query", "seconds"),
    [
        ("/api/v1/bots", "", 10),
        ("/bots/", "status=DONE", 10),
        ("/bots/", "format=csv", 60),
        ("/activity/export/", "show=slots", 60),
        ("/admin/bots/bot/", "", 60),
        ("/readyz", "", 2),
    ],
)
def test_exports_and_the_admin_may_take_longer(settings, path, query, seconds):
    settings.STATEMENT_LIMIT = timedelta(seconds=10)
    assert request_limits.limit_for(path, query) == timedelta(seconds=seconds)
