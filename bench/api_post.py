"""POST /api/v1/bots over HTTP, compared with a bare view that does one INSERT.

Measures requests per second and p99 with 1, 8 and 32 clients for a bot that gets an idle slot, one
that gets a new slot, and one that is queued. Also counts the SQL round trips of each.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import quantiles

from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from api.keys import create_api_key
from bench.processes import free_port, until
from bench.table import Row
from bots.status import Platform
from pool.steering import fit_pools
from slots.deployment import WarmImage

CLIENTS = (1, 8, 32)
SECONDS = 3.0
SLOTS, SERVER = 10_000, "server-1"
WORKERS = 4
TRANSACTION_STATEMENTS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


@dataclass(frozen=True)
class Kind:
    name: str
    meeting_url: str
    most_round_trips: int
    path: str = "/api/v1/bots"


@dataclass(frozen=True)
class Speed:
    per_second: float
    p99_ms: float

    def __str__(self) -> str:
        return f"{self.per_second:.0f} req/s, p99 {self.p99_ms:.0f} ms"


@dataclass(frozen=True)
class Caller:
    """Sends requests with one API key to one server."""

    port: int
    key: str

    def post(self, kind: Kind) -> int:
        body = json.dumps({"meetingUrl": kind.meeting_url, "config": {"language": "en"}})
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        return self._call("POST", kind.path, body, headers)

    def is_answered(self) -> bool:
        try:
            return self._call("GET", "/healthz", "", {}) == 200
        except OSError:
            return False

    def _call(self, method: str, path: str, body: str, headers: dict[str, str]) -> int:
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            server.request(method, path, body, headers)
            response = server.getresponse()
            response.read()
            return response.status
        finally:
            server.close()


BARE = Kind("one bare INSERT", "https://meet.google.com/abc-defg-hij", 1, path="/bare")
KINDS = (
    Kind("on an idle slot", "https://meet.google.com/abc-defg-hij", 10),
    Kind("in a new slot", "https://teams.live.com/meet/123", 26),
    Kind("queued", "https://zoom.us/j/123", 16),
)


def run() -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_bare (id bigserial PRIMARY KEY, meeting_url text)")
    key = create_api_key(name="bench")
    rows = [_round_trips(kind, key=key) for kind in KINDS]
    with _server(key=key) as caller:
        for kind in (BARE, *KINDS):  # warm-up: every worker loads its modules
            _measure(kind, caller, clients=8, seconds=1.0)
        return rows + [row for clients in CLIENTS for row in _speeds(caller, clients=clients)]


def _speeds(caller: Caller, *, clients: int) -> list[Row]:
    bare = _measure(BARE, caller, clients=clients, seconds=SECONDS)
    rows = []
    for kind in KINDS:
        speed = _measure(kind, caller, clients=clients, seconds=SECONDS)
        rows.append(
            Row(
                figure=f"POST /bots {kind.name}, {clients} clients",
                value=str(speed),
                reference=f"{BARE.name}: {bare}",
                ratio=speed.per_second / bare.per_second,
            )
        )
    return rows


def _measure(kind: Kind, caller: Caller, *, clients: int, seconds: float) -> Speed:
    _reset()
    times: list[float] = []
    end = time.monotonic() + seconds

    def client() -> None:
        while time.monotonic() < end:
            begin = time.perf_counter()
            assert caller.post(kind) == 201
            times.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Speed(len(times) / seconds, 1000 * quantiles(times, n=100)[98])


def _round_trips(kind: Kind, *, key: str) -> Row:
    """Count the SQL statements of the second call, without BEGIN, COMMIT and savepoints."""
    _reset()
    for _ in range(2):
        with CaptureQueriesContext(connection) as made:
            Client().post(
                kind.path,
                {"meetingUrl": kind.meeting_url},
                content_type="application/json",
                headers={"Authorization": f"Bearer {key}", "Host": "localhost"},
            )
    ours = sum(
        not query["sql"].startswith(TRANSACTION_STATEMENTS) for query in made.captured_queries
    )
    return Row(
        figure=f"SQL round trips of POST /bots {kind.name}",
        value=str(ours),
        reference=f"{BARE.name}: 1",
        ratio=float(ours),
        aim=f"at most {kind.most_round_trips}",
        met=ours <= kind.most_round_trips,
    )


def _reset() -> None:
    """Leave warm idle slots for Google Meet, none for Teams, and a pool of size 0 for Zoom."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE slots_slot, queues_queueentry CASCADE")
        cursor.execute(
            """
            INSERT INTO slots_pool (platform, max_size) VALUES ('zoom', 0)
            ON CONFLICT (platform) DO UPDATE SET max_size = 0
            """
        )
        cursor.execute(
            """
            INSERT INTO slots_slot (platform, number, name, status, coolify_uuid, server_uuid)
            SELECT 'google-meet', n, 'pool-google-meet-' || n, 'idle', 'app-' || n, %s
            FROM generate_series(1, %s) AS n
            """,
            [SERVER, SLOTS],
        )
    image = settings.BOT_IMAGES[Platform.GOOGLE_MEET]
    WarmImage.objects.get_or_create(image=image, server_uuid=SERVER)
    fit_pools()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


@contextmanager
def _server(*, key: str) -> Iterator[Caller]:
    caller = Caller(port=free_port(), key=key)
    command = [sys.executable, "-m", "gunicorn", "bench.api_server:application"]
    options = ["--workers", str(WORKERS), "--bind", f"127.0.0.1:{caller.port}"]
    process = subprocess.Popen(
        [*command, *options, "--log-level", "error"],
        env={**os.environ, "API_RATE_LIMIT": "0"},
        stderr=subprocess.DEVNULL,
    )
    try:
        until(caller.is_answered, pause=0.1)
        yield caller
    finally:
        process.terminate()
        process.wait()
