"""Where a request ends, and how much of unfinished requests is kept."""

import logging
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from gunicorn.config import Config

from botpool.runtime.web.configuration import worker_class
from botpool.runtime.web.framing import LARGEST_BODY, LARGEST_HEAD, Framing
from botpool.runtime.web.worker import PatientWorker
from tests.processes import ROOT, free_port, wait_until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUESTS = {
    "no body": GET,
    "body": b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    "odd spelling": b"POST / HTTP/1.1\r\nCONTENT-length:5\r\n\r\nhello",
    "chunks": CHUNKED + b"5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
    "trailers": CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\nZ: a\r\n\r\n",
    "no chunks": CHUNKED + b"0\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_complete_with_its_last_byte(request_bytes):
    framing, data = Framing(), bytearray()
    for byte in request_bytes[:-1]:
        data.append(byte)
        assert not framing.is_complete(data), bytes(data)
    data += request_bytes[-1:] + GET
    assert framing.is_complete(data)
    assert framing.end == len(request_bytes)
    assert not framing.is_refused


REFUSED = {
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "no number": b"POST / HTTP/1.1\r\nContent-Length: five\r\n\r\n",
    "negative": b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "length and chunks": b"P / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "unknown coding": b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "size of a chunk": CHUNKED + b"0x5\r\nhello\r\n",
    "negative chunk": CHUNKED + b"-5\r\nhello\r\n",
    "long head": b"GET / HTTP/1.1\r\nX: " + b"y" * LARGEST_HEAD,
    "long line of a chunk": CHUNKED + b"5;" + b"x" * 2_000,
    "long trailers": CHUNKED + b"0\r\nX: " + b"y" * LARGEST_HEAD,
}


@pytest.mark.parametrize("request_bytes", REFUSED.values(), ids=REFUSED)
def test_an_ambiguous_or_oversized_request_is_the_last_of_its_connection(request_bytes):
    framing = Framing()
    assert framing.is_complete(bytearray(request_bytes))
    assert framing.is_refused


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (LARGEST_BODY + 1),
        b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
        CHUNKED + b"%x\r\n" % (LARGEST_BODY + 1),
        CHUNKED + b"80000\r\n" + b"x" * 0x80000 + b"\r\n80000\r\n",
    ],
    ids=["length", "huge length", "chunk", "chunks"],
)
def test_a_body_that_is_too_big_is_refused_before_it_arrives(request_bytes):
    framing = Framing()
    assert framing.is_complete(bytearray(request_bytes))
    assert framing.is_too_big


def test_a_body_of_the_limit_is_accepted(settings):
    assert LARGEST_BODY == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    framing = Framing()
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % LARGEST_BODY
    assert framing.is_complete(bytearray(head + b"x" * LARGEST_BODY))
    assert not framing.is_refused


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
        for connection in made.waiting:
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


# --- Its configuration ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["WEB_PROCESSES", "WEB_THREADS", "WEB_CONNECTIONS", "WEB_GRACEFUL_SECONDS"],
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
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.mark.slow
def test_a_process_leaves_clients_to_the_others_while_requests_wait_in_it(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING_APPLICATION)
    with _web_server(tmp_path, "waiting:application") as (port, (first, second)):
        second.suspend()  # so the first one can take them all
        with ExitStack() as clients:
            sockets = [
                clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
                for _ in range(20)
            ]
            for client in sockets:
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            time.sleep(1)
            second.resume()
            (tmp_path / "go").touch()
            answers = [client.makefile("rb").read() for client in sockets]
    assert {int(answer.split(b"\r\n")[-1]) for answer in answers} == {first.pid, second.pid}


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


def _listens(pid: int) -> bool:
    return any(each.status == psutil.CONN_LISTEN for each in psutil.Process(pid).net_connections())
