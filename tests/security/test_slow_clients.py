"""The web server itself: clients that never end a request, or name themselves another path."""

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
def test_one_that_falls_silent_is_cut_off(port, beginning):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
        slow.sendall(beginning)
        while slow.recv(4096):  # perhaps a word of refusal, and then the end
            pass


def test_more_of_them_than_there_are_threads_keep_nobody_out_for_long(port):
    silent = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(12)]
    try:
        for number, connection in enumerate(silent):
            connection.sendall(UNFINISHED[number % len(UNFINISHED)])
        assert answers(port)
    finally:
        for connection in silent:
            connection.close()


def test_headers_without_end_are_refused(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        # In one piece: it may be refused before its end, and then no second one could be sent.
        begin = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
        client.sendall(begin + b"a" * 20_000 + b"\r\n\r\n")
        assert client.recv(4096).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


def test_a_request_cannot_be_smuggled_in_another(port):
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


def test_a_client_cannot_ask_the_proxy_for_one_path_and_us_for_another(port):
    """A proxy may keep /metrics and /admin/ to some, and passes a header on as it was sent."""
    address = f"http://127.0.0.1:{port}/open/healthz"
    assert requests.get(address, headers={"SCRIPT_NAME": "/open"}, timeout=20).status_code == 404
