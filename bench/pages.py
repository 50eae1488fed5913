"""The pages at 300 slots compared with an empty page, and the cost of open pages at rest.

Runs in one process with all of Django. The cost of an open page is the CPU time of this process;
the table shows PostgreSQL's share separately. While no row changes, a page's HTML comes from
memory; its first rendering has a row of its own. `bench.retention` has the pages beside a million
bots.
"""

import re
import time
from statistics import median

import psutil
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.test import Client

from bench.table import Row
from pool.request import BotRequest, request_bot

SLOTS = 300
CALLS = 30
RENDERINGS = 7
OPEN_PAGES = 50
ROUNDS = 13  # about 15 s, for which the permission check is cached
POLL_INTERVAL = 1.2  # seconds, as in static/botpool/live.js
EMPTY_PAGE = "/activity/?show=operators"
PAGES = ("/", "/slots/", "/bots/", "/queue/", "/deployments/", "/activity/")


def run() -> list[Row]:
    user = User.objects.create_superuser("bench")
    clients = [Client(headers={"Host": "localhost"}) for _ in range(OPEN_PAGES)]
    for client in clients:
        client.force_login(user)
    _fill()
    return [*_times(clients[0]), *(_cost_at_rest(clients, page) for page in ("/", "/slots/"))]


def _fill() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bots_bot, slots_slot, queues_queueentry CASCADE")
        # The page would show how long the previous benchmark's processes have been gone.
        cursor.execute("TRUNCATE slots_lease, coolify_budget")
    request = BotRequest(meeting_url="https://meet.google.com/abc-defg-hij", platform="google-meet")
    for _ in range(SLOTS):
        request_bot(request, actor="bench")


def _times(client: Client) -> list[Row]:
    taken: dict[str, list[float]] = {page: [] for page in (EMPTY_PAGE, *PAGES)}
    first: list[float] = []
    for _ in range(RENDERINGS):
        cache.clear()
        first.append(_time(client, "/"))
    for _ in range(CALLS):
        for page, times in taken.items():
            times.append(_time(client, page))
    empty = median(taken[EMPTY_PAGE])
    rows = [_beside_empty(page, median(taken[page]), empty) for page in PAGES]
    return [*rows, _first_rendering(median(first), empty)]


def _time(client: Client, page: str) -> float:
    begin = time.perf_counter()
    assert client.get(page).status_code == 200
    return 1000 * (time.perf_counter() - begin)


def _first_rendering(taken: float, empty: float) -> Row:
    """Once for each change, however many pages are open."""
    return Row(
        figure=f"first rendering of / at {SLOTS} slots, once a change",
        value=f"{taken:.1f} ms",
        reference=f"an empty page: {empty:.1f} ms",
        ratio=taken / empty,
    )


def _beside_empty(page: str, taken: float, empty: float) -> Row:
    return Row(
        figure=f"page {page} at {SLOTS} slots, nothing changed",
        value=f"{taken:.1f} ms",
        reference=f"an empty page: {empty:.1f} ms",
        ratio=taken / empty,
        aim="at most 2",
        met=taken / empty <= 2,
    )


def _cost_at_rest(clients: list[Client], page: str) -> Row:
    shown = re.search(r'data-version="(\w+)"', clients[0].get(page).text)
    assert shown is not None
    for client in clients:
        client.get(f"{page}?live={shown[1]}", headers={"HX-Request": "true"})
    calls, begin, database = ROUNDS * len(clients), time.process_time(), _database_seconds()
    for client in clients * ROUNDS:
        time.sleep(POLL_INTERVAL / OPEN_PAGES)
        answer = client.get(f"{page}?live={shown[1]}", headers={"HX-Request": "true"})
        assert answer.status_code == 204
    polls = OPEN_PAGES / POLL_INTERVAL / calls
    share = (time.process_time() - begin) * polls
    of_database = (_database_seconds() - database) * polls
    return Row(
        figure=f"{OPEN_PAGES} open pages {page} at rest",
        value=f"{share:.3f} of a core",
        reference=f"a tenth of a core (PostgreSQL: {of_database:.3f})",
        ratio=share / 0.1,
        aim="at most 1",
        met=share <= 0.1,
    )


def _database_seconds() -> float:
    """CPU time of this connection's PostgreSQL backend."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)
