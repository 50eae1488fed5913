"""The web server: unfinished, oversized and smuggled requests."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
import requests

from tests.processes import PATIENCE, ROOT, free_port, wait_until

pytestmark = pytest.mark.slow

HEAD = b"POST /api/v1/bots HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UNFINISHED = [b"GET /healthz HT", HEAD, HEAD + b'Content-Length: 1000\r\n\r\n{"meetingUrl"']


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    chosen = free_port()
    limits = {"WEB_BIND": f"127.0.0.1:{chosen}", "WEB_PROCESSES": "1", "WEB_THREADS": "4"}
    web = subprocess.Popen(
        [str(ROOT / "ops" / "start.sh"), "web"],
        env={**os.environ, **limits, "WEB_SILENCE_SECONDS": "1", "PYTHON": sys.executable},
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: answers(chosen), what="the web answers")
    yield chosen
    web.terminate()
    web.wait(PATIENCE)


def answers(port: int) -> bool:
    with suppress(requests.RequestException):
        return requests.get(f"http://127.0.0.1:{port}/healthz", timeout=20).ok
    return False


@pytest.mark.parametrize("beginning", UNFINISHED, ids=["line", "headers", "body"])
def test_a_silent_client_is_disconnected(port, beginning):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
        slow.sendall(beginning)
        while slow.recv(4096):  # an error response may come before the end
            pass


def test_more_silent_clients_than_threads_do_not_block_the_server(port):
    silent = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(12)]
    try:
        for number, connection in enumerate(silent):
            connection.sendall(UNFINISHED[number % len(UNFINISHED)])
        assert answers(port)
    finally:
        for connection in silent:
            connection.close()


def test_oversized_headers_are_refused(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        # Sent at once: the server may refuse and close before a second write.
        begin = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
        client.sendall(begin + b"a" * 20_000 + b"\r\n\r\n")
        assert client.recv(4096).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


def test_requests_cannot_be_smuggled(port):
    both = (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /readyz HTTP/1.1\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n" + both + b"\r\n")
        answer = b""
        with suppress(OSError):
            while piece := client.recv(4096):
                answer += piece
    assert answer.count(b"HTTP/1.1") == 1
    assert b" 400 " in answer.splitlines()[0] + b" "


def test_a_client_cannot_change_the_path_behind_the_proxy(port):
    """A proxy may restrict /metrics and /admin/ by path, and forwards headers unchanged."""
    address = f"http://127.0.0.1:{port}/open/healthz"
    assert requests.get(address, headers={"SCRIPT_NAME": "/open"}, timeout=20).status_code == 404
