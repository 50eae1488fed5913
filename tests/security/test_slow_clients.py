"""The web server: unfinished, oversized and smuggled requests."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import requests

from tests.processes import PATIENCE, ROOT, free_port, wait_until

pytestmark = pytest.mark.slow

CONNECTIONS = 200

HEAD = b"POST /api/v1/bots HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UNFINISHED = [b"GET /healthz HT", HEAD, HEAD + b'Content-Length: 1000\r\n\r\n{"meetingUrl"']


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    chosen = free_port()
    limits = {"WEB_BIND": f"127.0.0.1:{chosen}", "WEB_PROCESSES": "1", "WEB_THREADS": "4"}
    limits |= {"WEB_REQUEST_SECONDS": "2", "WEB_CONNECTIONS": str(CONNECTIONS)}
    web = subprocess.Popen(
        [str(ROOT / "ops" / "start.sh"), "web"],
        env={**os.environ, **limits, "PYTHON": sys.executable},
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
def test_a_silent_client_is_told_why_it_is_disconnected(port, beginning):
    head, _, body = conversation(port, beginning).decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n")
    assert json.loads(body)["detail"] == "The request did not arrive within 2 seconds."


def test_a_client_that_sends_nothing_gets_no_answer(port):
    assert conversation(port, b"") == b""


def test_a_client_that_is_told_to_go_on_and_does_not_is_told_why(port):
    head = HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    assert re.findall(rb"HTTP/1.1 (\d+)", conversation(port, head)) == [b"100", b"408"]


def test_more_silent_clients_than_threads_do_not_block_the_server(port):
    silent = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(12)]
    try:
        for number, connection in enumerate(silent):
            connection.sendall(UNFINISHED[number % len(UNFINISHED)])
        assert answers(port)
    finally:
        for connection in silent:
            connection.close()


@contextmanager
def dribbling(port: int, beginning: bytes, *, clients: int) -> Iterator[list[socket.socket]]:
    """Clients that send a byte from time to time, and come back when they are cut off."""
    connections = [connected(port, beginning) for _ in range(clients)]
    over = threading.Event()

    def dribble() -> None:
        while not over.wait(0.2):
            for number, connection in enumerate(connections):
                try:
                    connection.send(b"x")
                except OSError:
                    connection.close()
                    connections[number] = connected(port, beginning)

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        yield connections
    finally:
        over.set()
        thread.join()
        for connection in connections:
            connection.close()


def connected(port: int, beginning: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(beginning)
    return connection


@pytest.mark.parametrize(
    "beginning", [*UNFINISHED, b""], ids=["line", "headers", "body", "nothing"]
)
def test_clients_that_send_a_byte_now_and_then_hold_up_no_other(port, beginning):
    with dribbling(port, beginning, clients=60):
        for _ in range(10):
            assert answers(port)


def test_more_clients_than_the_server_has_connections_for_hold_up_no_other(port):
    with dribbling(port, UNFINISHED[2], clients=2 * CONNECTIONS):
        for _ in range(10):
            assert answers(port)


def test_a_request_has_to_arrive_in_time(port):
    """However steadily its bytes come."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
        slow.sendall(UNFINISHED[1])
        cut_off = threading.Event()

        def dribble() -> None:
            with suppress(OSError):
                while not cut_off.wait(0.1):
                    slow.sendall(b"x")

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            with suppress(ConnectionError):  # reset, because a byte was under way
                while slow.recv(4096):  # a time-out means that it was not cut off
                    pass
        finally:
            cut_off.set()
            thread.join()


def test_clients_that_do_not_read_their_answer_hold_up_no_other(port):
    """The script of the interactive page is larger than what the system buffers for a client."""
    request = b"GET /static/ninja/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    deaf = []
    for _ in range(12):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(request)
        deaf.append(client)
    try:
        assert answers(port)
        assert (
            len(
                requests.get(
                    f"http://127.0.0.1:{port}/static/ninja/swagger-ui-bundle.js", timeout=30
                ).content
            )
            > 1_000_000
        )
    finally:
        for client in deaf:
            client.close()


def test_a_large_refused_body_does_not_break_the_connection(port):
    with requests.Session() as client:
        for _ in range(3):
            answer = client.post(
                f"http://127.0.0.1:{port}/api/v1/bots", data=b"x" * 999_999, timeout=30
            )
            assert answer.status_code == 401
        for _ in range(3):
            answer = client.post(
                f"http://127.0.0.1:{port}/api/v1/bots", data=b"x" * 3_000_000, timeout=30
            )
            assert answer.status_code == 413
            assert answer.json()["status"] == 413


def test_an_address_that_is_too_long_is_a_problem_document(port):
    answer = requests.get(f"http://127.0.0.1:{port}/api/v1/bots?x={'y' * 5_000}", timeout=30)
    assert answer.status_code == 414
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 414


def test_a_chunked_body_arrives(port):
    pieces = iter([b'{"status"', b': "DONE"', b"}"])
    answer = requests.post(f"http://127.0.0.1:{port}/api/v1/bots", data=pieces, timeout=30)
    assert answer.status_code == 401


def test_a_client_that_asks_first_is_told_to_go_on(port):
    head = HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    with connected(port, head) as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"{}")
        assert client.recv(4096).startswith(b"HTTP/1.1 401 ")


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\nX: y\r\n\r\n"


def test_a_client_that_asks_first_may_send_chunks(port):
    with connected(port, CHUNKED + b"Expect: 100-continue\r\n\r\n") as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 100 ")
        client.sendall(CHUNKS)
        assert client.recv(4096).startswith(b"HTTP/1.1 401 ")


def test_chunked_requests_follow_each_other_on_a_connection(port):
    last = CHUNKED + b"Connection: close\r\n\r\n"
    answer = conversation(port, (CHUNKED + b"\r\n" + CHUNKS) * 3 + last + CHUNKS)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"401"] * 4


def test_a_chunked_request_may_arrive_byte_by_byte(port):
    request = CHUNKED + b"Connection: close\r\n\r\n" + CHUNKS
    with connected(port, b"") as client:
        for byte in request:
            client.sendall(bytes([byte]))
        assert client.recv(4096).startswith(b"HTTP/1.1 401 ")


def test_many_small_chunks_are_served(port):
    chunks = b"5\r\ntoken\r\n" * 3_000 + b"0\r\n\r\n"
    answer = conversation(port, CHUNKED + b"Connection: close\r\n\r\n" + chunks)
    assert answer.startswith(b"HTTP/1.1 401 ")


def conversation(port: int, request: bytes) -> bytes:
    """All that the server answers until it closes the connection."""
    with connected(port, request) as client:
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_requests_sent_at_once_are_answered_in_order(port):
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(port, get + get + last) as client:
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"404"]


def test_oversized_headers_are_refused(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        # Sent at once: the server may refuse and close before a second write.
        begin = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
        client.sendall(begin + b"a" * 20_000 + b"\r\n\r\n")
        assert client.recv(4096).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


REFUSED = {
    "extensions": (CHUNKED + b"\r\n" + (b"1;" + b"x" * 900 + b"\r\nx\r\n") * 1_200, 413),
    "tiny chunks": (CHUNKED + b"\r\n" + b"1\r\nx\r\n" * 150_000, 413),
    "size of a chunk": (CHUNKED + b"\r\nFFFFFFFFFFFFFFFFF\r\n", 400),
    "coding": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "endless head": (HEAD + b"X: " + b"y" * 70_000, 431),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "method": (b"get /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
}


@pytest.mark.parametrize(("request_bytes", "status"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_a_problem_document_with_an_id(port, request_bytes, status):
    head, _, body = conversation(port, request_bytes).decode().partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert json.loads(body)["status"] == status
    assert "\r\nContent-Type: application/problem+json\r\n" in head
    assert "\r\nCache-Control: no-store\r\n" in head
    assert re.search(r"\r\nX-Correlation-Id: [0-9a-f]{32}$", head)


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
    assert b"The request has both Content-Length and Transfer-Encoding." in answer


def test_a_client_cannot_change_the_path_behind_the_proxy(port):
    """A proxy may restrict /metrics and /admin/ by path, and forwards headers unchanged."""
    address = f"http://127.0.0.1:{port}/open/healthz"
    assert requests.get(address, headers={"SCRIPT_NAME": "/open"}, timeout=20).status_code == 404
