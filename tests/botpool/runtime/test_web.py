"""How much of unfinished requests is kept, how one is refused, and the configuration."""

import gc
import io
import logging
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Event

import psutil
import pytest
from gunicorn.config import Config

from botpool.runtime.web.configuration import post_worker_init, worker_class
from botpool.runtime.web.connection import Connection
from botpool.runtime.web.worker import REQUEST_SECONDS, PatientWorker, logger
from core.logs import TextFormatter
from tests.processes import ROOT, free_port, wait_until


def test_the_configuration_names_the_worker():
    assert worker_class == f"{PatientWorker.__module__}.{PatientWorker.__name__}"


@pytest.fixture
def worker() -> Iterator[PatientWorker]:
    """It has room for two connections."""
    cfg = Config()
    cfg.set("worker_connections", 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        log = logging.getLogger(__name__)
        made = PatientWorker(0, os.getpid(), [listener], None, 30, cfg, log)
        with selectors.DefaultSelector() as made.poller:
            made.set_accept_enabled(True)
            yield made
        for connection in [*made.waiting, *made.working]:
            connection.close()
        made.tmp.close()


def test_a_connection_that_was_closed_to_make_room_may_have_sent_at_the_same_time(worker):
    address = worker.sockets[0].getsockname()
    with ExitStack() as clients:
        first, second = (clients.enter_context(socket.create_connection(address)) for _ in "12")
        while len(worker.waiting) < 2:
            worker.wait_for_and_dispatch_events(timeout=10.0)
        third = clients.enter_context(socket.create_connection(address))
        first.sendall(b"GET / HT")
        second.sendall(b"GET / HT")
        while len(worker.poller.select(timeout=0)) < 3:
            pass  # the next turn has to see all three at once
        worker.wait_for_and_dispatch_events(timeout=10.0)
        assert third.getsockname() in [each.client for each in worker.waiting]


def test_the_largest_connection_has_to_go_when_memory_is_short(worker):
    """Not the oldest, which may hold nothing and be of another client."""
    worker.most_held = 100_000
    worker.worker_connections = 10
    address = worker.sockets[0].getsockname()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n"
    with ExitStack() as clients:
        idle, large, small = (
            clients.enter_context(socket.create_connection(address)) for _ in range(3)
        )
        _receive_all(worker, connections=3, held=0)
        large.sendall(head + b"x" * 80_000)
        _receive_all(worker, connections=3, held=80_000)
        small.sendall(head + b"x" * 30_000)
        _receive_all(worker, connections=2, held=30_000)
        left = [each.client for each in worker.waiting]
        assert left == [idle.getsockname(), small.getsockname()]


def _receive_all(worker: PatientWorker, *, connections: int, held: int) -> None:
    def has_arrived() -> bool:
        worker.wait_for_and_dispatch_events(timeout=0.1)
        return len(worker.waiting) == connections and worker.held >= held

    wait_until(has_arrived, what="the worker has received all")


@pytest.fixture
def busy(worker) -> Iterator[Event]:
    """The worker's only thread answers no request before this is set."""
    worker.worker_connections = 10
    worker.cfg.set("threads", 1)
    free = Event()
    worker.handle_request = lambda request, connection: bool(free.wait(60)) and False
    worker.tpool = ThreadPoolExecutor(max_workers=1)
    worker.method_queue.init()
    wakes = worker.method_queue.fileno()
    worker.poller.register(wakes, selectors.EVENT_READ, worker.method_queue.run_callbacks)
    yield free
    free.set()
    worker.tpool.shutdown()
    worker.method_queue.close()


def test_the_largest_request_that_waits_for_a_thread_is_refused_when_memory_is_short(worker, busy):
    """A database that hangs keeps the threads, and any client can send complete requests."""
    worker.most_held = 200_000
    with ExitStack() as clients:
        running, large, small, last = (_sends(worker, clients, size) for size in SIZES)
        answer = _what_arrives(worker, large)
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n")
        assert b"\r\nRetry-After: 2\r\n" in answer
        assert worker.held < 200_000
        left = [each.client for each in worker.working]
        assert left == [each.getsockname() for each in (running, small, last)]


def test_a_request_is_counted_until_its_thread_has_ended(worker, busy):
    with ExitStack() as clients:
        client = _sends(worker, clients, 50_000)
        assert worker.held > 50_000
        busy.set()
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: _turned(worker) and not worker.working, what="the thread has ended")
        assert worker.held == 0


SIZES = [50_000, 90_000, 30_000, 40_000]


def _sends(worker: PatientWorker, clients: ExitStack, size: int) -> socket.socket:
    """A complete request, which the worker has received."""
    client = clients.enter_context(socket.create_connection(worker.sockets[0].getsockname()))
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    client.sendall(head + b"x" * size)
    name = client.getsockname()
    wait_until(
        lambda: _turned(worker) and name in [each.client for each in worker.working],
        what="the worker has received it",
    )
    return client


def _what_arrives(worker: PatientWorker, client: socket.socket) -> bytes:
    """Up to the end of the connection."""
    client.setblocking(False)
    answer = bytearray()

    def has_ended() -> bool:
        _turned(worker)
        with suppress(BlockingIOError):
            piece = client.recv(65_536)
            answer.extend(piece)
            return not piece
        return False

    wait_until(has_ended, what="the connection ends")
    return bytes(answer)


def _turned(worker: PatientWorker) -> bool:
    worker.wait_for_and_dispatch_events(timeout=0.1)
    return True


@pytest.mark.parametrize(
    ("arrived", "seconds"), [(b"", 5.0), (b"GET / HT", float(REQUEST_SECONDS))]
)
def test_a_request_that_began_with_the_one_before_has_the_time_of_a_request(
    worker, arrived, seconds
):
    client, server = socket.socketpair()
    with client:
        connection = Connection(server, ("192.0.2.1", 5), ("127.0.0.1", 80))
        connection.received += arrived
        worker.cfg.set("keepalive", 5)
        began = time.monotonic()
        worker._answer(connection, closes=False)
        assert connection.deadline - began == pytest.approx(seconds, abs=3)


def test_a_refusal_has_the_id_of_its_log_line(worker):
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextFormatter())
    logger.addHandler(handler)
    try:
        answer = _refused(worker, b"GET / HTTP/1.1\r\n\r\n")
    finally:
        logger.removeHandler(handler)
    (correlation_id,) = re.findall(r"\r\nX-Correlation-Id: ([0-9a-f]{32})\r\n", answer)
    assert "with 400: The request has no Host header" in written.getvalue()
    assert f"[corr={correlation_id}]" in written.getvalue()


def _refused(worker: PatientWorker, request: bytes) -> str:
    client, server = socket.socketpair()
    with client, server:
        connection = Connection(server, ("192.0.2.1", 5), ("127.0.0.1", 80))
        connection.received += request
        assert connection.framing.is_complete(connection.received)
        assert not worker.handle(connection)
        return client.recv(65_536).decode()


# --- Its configuration ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["WEB_PROCESSES", "WEB_THREADS", "WEB_CONNECTIONS", "WEB_GRACEFUL_SECONDS", "WEB_BUFFER_MB"],
)
def test_a_wrong_number_stops_the_start_with_one_line(name):
    done = subprocess.run(
        [sys.executable, "-c", "import botpool.runtime.web.configuration"],
        env={**os.environ, name: "many"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"botpool: {name} is 'many'; allowed: a whole number from 1 to ")
    assert len(done.stderr.splitlines()) == 1


WAITING_APPLICATION = """
import os, pathlib, time

def application(environ, start_response):
    while environ["PATH_INFO"] != "/healthz" and not pathlib.Path("go").exists():
        time.sleep(0.01)
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


ALWAYS_TO_OTHERS = """
from botpool.runtime.web import worker

worker.BUSY_SECONDS = 600
"""


@pytest.mark.slow
def test_a_process_leaves_clients_to_the_others_while_requests_wait_in_it(tmp_path):
    (tmp_path / "waiting.py").write_text(ALWAYS_TO_OTHERS + WAITING_APPLICATION)
    with _web_server(tmp_path, "waiting:application") as (port, (first, second)):
        second.suspend()  # so the first one can take them all
        with ExitStack() as clients:
            sockets = []
            for count in (8, 12):  # a fast one takes all that come before a request waits in it
                for _ in range(count):
                    client = socket.create_connection(("127.0.0.1", port), timeout=60)
                    sockets.append(clients.enter_context(client))
                    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                time.sleep(1)
            second.resume()
            wait_until(lambda: _serves(second), what="the second one takes a client")
            (tmp_path / "go").touch()
            answers = [client.makefile("rb").read() for client in sockets]
    assert {int(answer.split(b"\r\n")[-1]) for answer in answers} == {first.pid, second.pid}


@pytest.mark.slow
def test_a_probe_is_answered_while_all_threads_wait(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING_APPLICATION)
    with _web_server(tmp_path, "waiting:application") as (port, _), ExitStack() as clients:

        def ask(path: bytes) -> socket.socket:
            client = socket.create_connection(("127.0.0.1", port), timeout=60)
            client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path)
            return clients.enter_context(client)

        waiting = [ask(b"/") for _ in range(20)]
        assert ask(b"/healthz").makefile("rb").read().startswith(b"HTTP/1.1 200")
        (tmp_path / "go").touch()
        for each in waiting:
            assert each.makefile("rb").read().startswith(b"HTTP/1.1 200")


ENDS_SLOWLY = """
from botpool.runtime.web import worker

worker.LAST_REQUESTS_SECONDS = 600
"""


@pytest.mark.slow
def test_the_next_request_on_an_open_connection_is_answered_while_the_process_ends(tmp_path):
    (tmp_path / "waiting.py").write_text(ENDS_SLOWLY + WAITING_APPLICATION)
    (tmp_path / "go").touch()
    with (
        _web_server(tmp_path, "waiting:application") as (port, _),
        closing(HTTPConnection("127.0.0.1", port, timeout=60)) as client,
    ):
        pid = int(_answer(client).read())
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.5)
        last = _answer(client)
        assert (int(last.read()), last.headers["Connection"]) == (pid, "close")


ENDING_APPLICATION = """
import os, signal, time

def application(environ, start_response):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.3)
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


@pytest.mark.slow
def test_a_connection_stays_open_if_its_client_was_not_told_that_it_closes(tmp_path):
    """The process is told to end while it answers, after the headers are decided."""
    (tmp_path / "ending.py").write_text(ENDS_SLOWLY + ENDING_APPLICATION)
    with (
        _web_server(tmp_path, "ending:application") as (port, _),
        closing(HTTPConnection("127.0.0.1", port, timeout=60)) as client,
    ):
        first = _answer(client)
        first.read()
        assert first.headers["Connection"] != "close"
        assert _answer(client).headers["Connection"] == "close"


def _answer(client: HTTPConnection) -> HTTPResponse:
    client.request("GET", "/")
    return client.getresponse()


def test_what_the_program_consists_of_is_set_aside_from_the_garbage_collector():
    before = gc.get_freeze_count()
    post_worker_init(None)
    try:
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


BREAKING_APPLICATION = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "100")])
    yield b"half"
    raise RuntimeError("It breaks.")
"""


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_not_followed_by_another(tmp_path):
    (tmp_path / "breaking.py").write_text(BREAKING_APPLICATION)
    with (
        _web_server(tmp_path, "breaking:application") as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=60) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = client.makefile("rb").read()
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(b"\r\n\r\nhalf")


@contextmanager
def _web_server(directory: Path, application: str) -> Iterator[tuple[int, list[psutil.Process]]]:
    """Two processes with a thread each."""
    port = free_port()
    words = ["-c", str(ROOT / "botpool/runtime/web/configuration.py"), "--threads", "1"]
    leader = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", *words, "--bind", f"127.0.0.1:{port}", application],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{directory}", "WEB_PROCESSES": "2"},
    )
    try:
        family = psutil.Process(leader.pid)
        wait_until(lambda: len(family.children()) == 2, what="both processes run")
        wait_until(lambda: _listens(leader.pid), what="it listens")
        yield port, family.children()
    finally:
        leader.terminate()
        leader.wait()


def _serves(process: psutil.Process) -> bool:
    return any(each.status == psutil.CONN_ESTABLISHED for each in process.net_connections())


def _listens(pid: int) -> bool:
    return any(each.status == psutil.CONN_LISTEN for each in psutil.Process(pid).net_connections())
