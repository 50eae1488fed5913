"""Bodies without a length (`Transfer-Encoding: chunked`), as a web server hands them over."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import RequestFactory

from botpool.wsgi import application
from tests.api.conftest import MEETING, Api, Assigned

LIMIT = 1_000_000


class Endless(io.RawIOBase):
    """A body that does not end, and that counts what was read of it."""

    served = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "read without a limit"
        self.served += size
        return b"x" * size


def send(api: Api, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    """Through the WSGI application, as gunicorn calls it: the body ends by itself."""
    environ = (
        RequestFactory(headers=api.headers)
        .post(f"/api/v1/{path}", content_type="application/json")
        .environ
    )
    del environ["CONTENT_LENGTH"]
    environ |= {
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input": body if isinstance(body, io.RawIOBase) else io.BytesIO(body),
        "wsgi.input_terminated": True,
    }
    started = []
    answer = application(environ, lambda *line: started.append(line))
    return int(started[0][0].split()[0]), json.loads(b"".join(answer))


@pytest.fixture(autouse=True)
def _keep_the_connection() -> Iterator[None]:
    """At its ends a request closes old connections, and the test's transaction is in this one."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_a_chunked_request_is_read(client_api):
    status, body = send(client_api, "bots", json.dumps({"meetingUrl": MEETING}).encode())
    assert status == 201, body
    assert body["bot"]["meetingUrl"] == MEETING


def test_a_bots_chunked_report_releases_its_slot(assigned: Assigned):
    path = f"bots/{assigned.bot.pk}/status"
    assert send(assigned.api, path, b'{"status": "DONE"}') == (200, {"shouldLeave": True})
    assert assigned.status() == "DONE"


def test_a_chunked_body_of_exactly_the_limit_is_read(client_api):
    body = json.dumps({"meetingUrl": MEETING}).encode().ljust(LIMIT)
    assert send(client_api, "bots", body)[0] == 201


@pytest.mark.parametrize("path", ["bots", "bots/1/cancel", "nothing"])
def test_an_endless_body_is_refused_once_it_is_too_big(client_api, path):
    endless = Endless()
    assert send(client_api, path, endless)[0] == 413
    assert endless.served <= LIMIT + 1


def test_an_endless_report_of_a_bot_is_refused_too(assigned: Assigned):
    endless = Endless()
    assert send(assigned.api, f"bots/{assigned.bot.pk}/status", endless)[0] == 413
    assert endless.served <= LIMIT + 1
