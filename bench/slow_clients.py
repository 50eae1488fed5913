"""A normal client's response times beside clients that mean harm: 500 that send a byte every three
seconds, and some that send 50 requests of 1 MB a second, all of which are refused.

No proxy is in front of the web server, which is configured as it is shipped. HARM_SECONDS=600 makes
each attack last for ten minutes.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from statistics import quantiles

import psutil
import requests

from api.keys import create_api_key
from bench.processes import free_port, until
from bench.table import Row
from botpool.runtime.ports import serves_http

ATTACKERS = 500
PAUSE = 3.0
SECONDS = float(os.environ.get("HARM_SECONDS", "20"))
FORM = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nusername="
SENDERS, REQUESTS_A_SECOND = 5, 50
TOO_LARGE = b'{"meetingUrl": "https://zoom.us/j/1", "config": {"a": "%s"}}' % (b"x" * 990_000)

Attack = Callable[[int, threading.Event], None]


def run() -> list[Row]:
    key = create_api_key(name="slow clients")
    flood = partial(_flood, key=key)
    with _web() as (port, web):
        _p99(port, key=key, seconds=3.0)  # warm-up
        alone = _p99(port, key=key, seconds=SECONDS)
        with _attacked(port, _trickle):
            beside_slow = _p99(port, key=key, seconds=SECONDS)
        with _attacked(port, flood):
            _p99(port, key=key, seconds=5.0)  # until the buffers have their size
            before = _memory(web)
            beside_flood = _p99(port, key=key, seconds=SECONDS)
            after = _memory(web)
    return [
        _p99_row(
            f"{ATTACKERS} clients that send a byte every 3 s", beside_slow, alone=alone, most=3
        ),
        _p99_row(
            f"{REQUESTS_A_SECOND} refused requests of 1 MB a second", beside_flood, alone=alone
        ),
        Row(
            figure=f"memory of the web server after {SECONDS:.0f} s of these requests",
            value=f"{after / 1e6:.0f} MB",
            reference=f"at their beginning: {before / 1e6:.0f} MB",
            ratio=after / before,
            aim="at most 1.1",
            met=after <= 1.1 * before,
        ),
    ]


def _p99_row(what: str, beside: float, *, alone: float, most: float | None = None) -> Row:
    return Row(
        figure=f"GET /pool, p99 beside {what}",
        value=f"{beside * 1000:.0f} ms",
        reference=f"alone: {alone * 1000:.0f} ms",
        ratio=beside / alone,
        aim=f"at most {most}, and below 1 s" if most else "below 1 s",
        met=beside < 1 and (most is None or beside <= most * alone),
    )


def _p99(port: int, *, key: str, seconds: float) -> float:
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        # A new connection each time: an open one would not have to wait for its turn.
        answer = requests.get(
            f"http://127.0.0.1:{port}/api/v1/pool",
            headers={"Authorization": f"Bearer {key}", "Host": "localhost"},
            timeout=60,
        )
        answer.raise_for_status()
        times.append(time.perf_counter() - begin)
    return quantiles(times, n=100)[98]


@contextmanager
def _attacked(port: int, attack: Attack) -> Iterator[None]:
    over = threading.Event()
    attacker = threading.Thread(target=attack, args=(port, over))
    attacker.start()
    time.sleep(PAUSE)
    try:
        yield
    finally:
        over.set()
        attacker.join()


def _trickle(port: int, over: threading.Event) -> None:
    """A client that is cut off comes back at once."""
    clients: list[socket.socket | None] = [None] * ATTACKERS
    while not over.is_set():
        for number, client in enumerate(clients):
            try:
                if client is None:
                    clients[number] = client = socket.create_connection(("127.0.0.1", port), 10)
                    client.sendall(FORM)
                client.sendall(b"x")
            except OSError:
                clients[number] = None
        over.wait(PAUSE)
    for client in clients:
        if client:
            client.close()


def _flood(port: int, over: threading.Event, *, key: str) -> None:
    senders = [threading.Thread(target=_send, args=(port, over, key)) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def _send(port: int, over: threading.Event, key: str) -> None:
    """At a steady pace, or as fast as the answers come."""
    due, session = time.monotonic(), requests.Session()
    headers = {"Authorization": f"Bearer {key}", "Host": "localhost"}
    headers["Content-Type"] = "application/json"
    while not over.wait(max(0.0, due - time.monotonic())):
        due = max(due + SENDERS / REQUESTS_A_SECOND, time.monotonic() - 1.0)
        with suppress(requests.RequestException):
            url = f"http://127.0.0.1:{port}/api/v1/bots"
            answer = session.post(url, data=TOO_LARGE, headers=headers, timeout=60)
            assert answer.status_code in (413, 422), answer.status_code


def _memory(web: subprocess.Popen[bytes]) -> int:
    leader = psutil.Process(web.pid)
    return sum(each.memory_info().rss for each in [leader, *leader.children(recursive=True)])


@contextmanager
def _web() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = free_port()
    gunicorn = [sys.executable, "-m", "gunicorn", "botpool.wsgi:application"]
    gunicorn += ["--config", "python:botpool.runtime.web.configuration"]
    environment = {"WEB_BIND": f"127.0.0.1:{port}", "API_RATE_LIMIT": "0"}
    process = subprocess.Popen(gunicorn, env={**os.environ, **environment})
    try:
        until(lambda: serves_http(host="127.0.0.1", port=port))
        yield port, process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait()
