"""A normal client's response times beside 500 clients that send a byte every three seconds.

No proxy is in front of the web server, which is configured as it is shipped.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import quantiles

import requests

from api.keys import create_api_key
from bench.processes import free_port, until
from bench.table import Row
from botpool.runtime.ports import serves_http

ATTACKERS = 500
PAUSE = 3.0
SECONDS = 20.0
FORM = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nusername="


def run() -> list[Row]:
    key = create_api_key(name="slow clients")
    with _web() as port:
        _p99(port, key=key, seconds=3.0)  # warm-up
        alone = _p99(port, key=key, seconds=SECONDS)
        with _attacked(port):
            beside = _p99(port, key=key, seconds=SECONDS)
    return [
        Row(
            figure=f"GET /pool, p99 beside {ATTACKERS} clients that send a byte every 3 s",
            value=f"{beside * 1000:.0f} ms",
            reference=f"alone: {alone * 1000:.0f} ms",
            ratio=beside / alone,
            aim="at most 3, and below 1 s",
            met=beside <= 3 * alone and beside < 1,
        )
    ]


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
def _attacked(port: int) -> Iterator[None]:
    over = threading.Event()
    attacker = threading.Thread(target=_attack, args=(port, over))
    attacker.start()
    time.sleep(PAUSE)
    try:
        yield
    finally:
        over.set()
        attacker.join()


def _attack(port: int, over: threading.Event) -> None:
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


@contextmanager
def _web() -> Iterator[int]:
    port = free_port()
    gunicorn = [sys.executable, "-m", "gunicorn", "botpool.wsgi:application"]
    gunicorn += ["--config", "python:botpool.runtime.web.configuration"]
    environment = {"WEB_BIND": f"127.0.0.1:{port}", "API_RATE_LIMIT": "0"}
    process = subprocess.Popen(gunicorn, env={**os.environ, **environment})
    try:
        until(lambda: serves_http(host="127.0.0.1", port=port))
        yield port
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait()
