"""A normal client's response times beside 500 clients that send a byte every three seconds, and
beside garbage of 50 MB a second; and the web server's memory meanwhile.

No proxy is in front of the web server, which is configured as it is shipped.
"""

import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import quantiles

import psutil
import requests

from api.keys import create_api_key
from bench.processes import free_port, until
from bench.table import Row
from botpool.runtime.ports import serves_http

ATTACKERS = 500
PAUSE = 3.0
SECONDS = float(os.environ.get("BENCH_ATTACK_SECONDS", "20"))  # four times: 150 for ten minutes
FORM = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nusername="


def run() -> list[Row]:
    key = create_api_key(name="slow clients")
    with _web() as (port, web):
        _p99(port, key=key, seconds=3.0)  # warm-up
        alone = _p99(port, key=key, seconds=SECONDS)
        with _attacked(port):
            beside = _p99(port, key=key, seconds=SECONDS)
            with _garbage(port, key=key) as garbage:
                with _most_memory(web) as before:
                    first = _p99(port, key=key, seconds=SECONDS)
                with _most_memory(web) as after:
                    second = _p99(port, key=key, seconds=SECONDS)
    slow = f"{ATTACKERS} clients that send a byte every 3 s"
    return [
        _row(f"GET /pool, p99 beside {slow}", beside, alone=alone, most=3),
        _row(
            f"GET /pool, p99 beside these and {garbage.rate:.0f} MB/s of garbage",
            max(first, second),
            alone=alone,
        ),
        Row(
            figure=f"most memory of the web server during {garbage.sent} requests of 1 MB",
            value=f"second half: {after[0] / 1e6:.0f} MB",
            reference=f"first half: {before[0] / 1e6:.0f} MB",
            ratio=after[0] / before[0],
            aim="at most 1.2",
            met=after[0] <= 1.2 * before[0],
        ),
    ]


def _row(figure: str, seconds: float, *, alone: float, most: float = math.inf) -> Row:
    limit = "" if most == math.inf else f"at most {most:g}, and "
    return Row(
        figure=figure,
        value=f"{seconds * 1000:.0f} ms",
        reference=f"alone: {alone * 1000:.0f} ms",
        ratio=seconds / alone,
        aim=f"{limit}below 1 s",
        met=seconds <= most * alone and seconds < 1,
    )


@dataclass
class Garbage:
    sent: int = 0
    rate: float = 0.0


@contextmanager
def _garbage(port: int, *, key: str) -> Iterator[Garbage]:
    command = [sys.executable, "-m", "bench.garbage", str(port), key]
    done, begin = Garbage(), time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield done
        finally:
            output, _ = process.communicate()
    done.sent = int(output)
    done.rate = done.sent / (time.monotonic() - begin)


@contextmanager
def _most_memory(web: psutil.Process) -> Iterator[list[int]]:
    """A list of one number. At a single moment it would say little: it rises until the garbage
    collector comes, and falls when a process is replaced."""
    most, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            most[0] = max(most[0], _memory(web))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def _memory(web: psutil.Process) -> int:
    held = 0
    for each in [web, *web.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            held += each.memory_full_info().uss
    return held


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
def _web() -> Iterator[tuple[int, psutil.Process]]:
    port = free_port()
    gunicorn = [sys.executable, "-m", "gunicorn", "botpool.wsgi:application"]
    gunicorn += ["--config", "python:botpool.runtime.web.configuration"]
    environment = {"WEB_BIND": f"127.0.0.1:{port}", "API_RATE_LIMIT": "0"}
    process = subprocess.Popen(gunicorn, env={**os.environ, **environment})
    try:
        until(lambda: serves_http(host="127.0.0.1", port=port))
        yield port, psutil.Process(process.pid)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait()
