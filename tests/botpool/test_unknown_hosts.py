"""Requests for hosts that are not in ALLOWED_HOSTS."""

import pytest
from django.test import Client, RequestFactory

from botpool import unknown_hosts

EVIL = 'evil<b>"x.example'


@pytest.fixture(autouse=True)
def log(monkeypatch):
    """As in a process that has not logged one yet."""
    monkeypatch.setattr(unknown_hosts, "_log", unknown_hosts._Log())


def ask(path, host=EVIL):
    return Client().get(path, headers={"Host": host})


@pytest.mark.parametrize("path", ["/", "/api/v1/bots", "/api/v1/nowhere", "/admin/"])
def test_the_answer_names_the_setting_and_not_the_host(path):
    answer = ask(path)
    assert answer.status_code == 400
    text = answer.content.decode()
    assert "host name is not allowed here" in text
    assert "ALLOWED_HOSTS" in text
    assert "evil" not in text


def test_the_api_answers_with_a_problem():
    answer = ask("/api/v1/bots")
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["detail"] == unknown_hosts.DETAIL


@pytest.mark.parametrize("path", ["/", "/api/v1/bots"])
def test_a_line_of_the_log_says_why(caplog, path):
    ask(path)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert '"evil<b>\\"x.example", which is not in ALLOWED_HOSTS' in record.getMessage()


def test_a_flood_of_wrong_hosts_does_not_flood_the_log(caplog, monkeypatch):
    for number in range(20):
        ask("/", f"host{number}.example")
    assert len(caplog.records) == 1
    monkeypatch.setattr(unknown_hosts, "LOG_INTERVAL", 0)
    unknown_hosts._log.next_line = 0
    ask("/", "x" * 5_000)
    assert "19 more requests" in caplog.records[-1].getMessage()
    assert len(caplog.records[-1].getMessage()) < 300


def test_other_refusals_keep_their_page():
    answer = unknown_hosts.bad_request(RequestFactory().get("/"), ValueError())
    assert b"The request cannot be read" in answer.content
