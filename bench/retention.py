"""A million bots of history: how much it slows down daily work, and how fast it is pruned.

The history is a year old and made with SQL: each bot has an event, a slot transition and a
deployment. The reference of each figure is the same server without history.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from api.keys import create_api_key
from bench.acquire import BOTS_PER_CLIENT, _cycle, _fill
from bench.clients import measure
from bench.table import Row
from botpool.telemetry.counters import count_history
from botpool.telemetry.retention import prune

HISTORY = 1_000_000
CLIENTS = 4
SECONDS = 4
CALLS = 20
ACQUISITIONS = 300
PRUNED_SECONDS = 10.0
PAGES = (
    "/",
    "/bots/",
    "/activity/",
    "/deployments/",
    "/admin/bots/bot/",
    "/admin/bots/botevent/",
    "/admin/slots/slottransition/",
    "/admin/slots/deployment/",
)

_BOTS = """
INSERT INTO bots_bot (
    correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout, status,
    previous_status, failure_reason, failure_kind, placements, slot_name, coolify_service_uuid,
    created_at, ended_at
)
SELECT 'c', 'teams', 'https://example.com/', 'Notetaker', '{}', 100, '5 min', 'DONE', 'IN_CALL',
    '', '', 1, 'pool-teams-001', 'app-t', moment, moment
FROM (SELECT now() - interval '1 year' + n * interval '1 second' AS moment
      FROM generate_series(1, %s) AS n) AS past
"""
_EVENTS = """
INSERT INTO bots_botevent (
    bot_id, at, from_status, to_status, reason, actor, correlation_id, slot_name, coolify_uuid
)
SELECT id, ended_at, 'IN_CALL', 'DONE', 'The meeting is over', 'bench', 'c', 'pool-teams-001', ''
FROM bots_bot WHERE status = 'DONE' ORDER BY id
"""
_TRANSITIONS = """
INSERT INTO slots_slottransition (
    slot_id, slot_name, at, from_status, to_status, reason, bot_id, epoch, coolify_uuid, actor,
    correlation_id
)
SELECT 0, 'pool-teams-001', ended_at, 'busy', 'stopping', 'Over', id, 1, '', 'bench', ''
FROM bots_bot WHERE status = 'DONE' ORDER BY id
"""
_DEPLOYMENTS = """
INSERT INTO slots_deployment (
    slot_id, slot_name, bot_id, epoch, image, server_uuid, status, created_at, ended_at
)
SELECT 0, 'pool-teams-001', id, 1, 'bot:1.0', '', 'finished', created_at, ended_at
FROM bots_bot WHERE status = 'DONE' ORDER BY id
"""


def run() -> list[Row]:
    key = create_api_key(name="retention")
    client = Client(headers={"Authorization": f"Bearer {key}", "Host": "localhost"})
    client.force_login(User.objects.create_superuser("retention"))
    _fill(slots=1_000, bots=3 * CLIENTS * BOTS_PER_CLIENT)
    before = _figures(client, turn=0)
    _add_history()
    after = _figures(client, turn=1)
    rows = [_compare(name, before=before[name], after=after[name]) for name in before]
    return [*rows, *_pruning()]


def _figures(client: Client, *, turn: int) -> dict[str, float]:
    """The time of each operation in milliseconds."""
    count_history()
    return {
        "acquire+release": _acquire(turn),
        "list of bots in the API": _calls(client, "/api/v1/bots?limit=50"),
        **{f"page {page}": _calls(client, page) for page in PAGES},
        "scrape of /metrics": _calls(client, "/metrics"),
        "one update of the counters": _quick(count_history),
    }


def _acquire(turn: int) -> float:
    numbers = iter(range(BOTS_PER_CLIENT))
    return _quick(lambda: _cycle(turn, next(numbers)), calls=ACQUISITIONS)


def _acquire_under_load(turn: int) -> float:
    """Use bots that no earlier measurement has used."""

    def cycle(client: int, number: int) -> None:
        _cycle(turn * CLIENTS + client, number)

    return measure(cycle, clients=CLIENTS, seconds=SECONDS).p50_ms


def _calls(client: Client, path: str) -> float:
    def call() -> None:
        assert client.get(path).status_code == 200

    return _quick(call)


def _quick(call: Callable[[], None], *, calls: int = CALLS) -> float:
    """The 20th percentile in milliseconds: slower calls include other load on the machine."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - begin))
    return quantiles(times, n=5)[0]


def _compare(name: str, *, before: float, after: float) -> Row:
    return Row(
        figure=f"{name}, after {HISTORY:,} bots",
        value=f"{after:.1f} ms",
        reference=f"without history {before:.1f} ms",
        ratio=after / before,
        aim="at most 1.5",
        met=after / before <= 1.5,
    )


def _add_history() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        for sql, values in ((_BOTS, [HISTORY]), (_EVENTS, []), (_TRANSITIONS, [])):
            cursor.execute(sql, values)
        cursor.execute(_DEPLOYMENTS)
        cursor.execute("VACUUM ANALYZE bots_bot, bots_botevent")
        cursor.execute("VACUUM ANALYZE slots_slottransition, slots_deployment")
        cursor.execute("CHECKPOINT")


# --- Pruning ---------------------------------------------------------------------------------


def _pruning() -> list[Row]:
    undisturbed = _acquire_under_load(1)
    with _pruned_beside() as counts:
        disturbed = _acquire_under_load(2)
    deleted, seconds = counts[0]
    ratio = disturbed / undisturbed
    return [
        Row(
            figure="acquire+release p50 while history is pruned",
            value=f"{disturbed:.1f} ms",
            reference=f"otherwise {undisturbed:.1f} ms",
            ratio=ratio,
            aim="at most 3 (on two cores)",
            met=ratio <= 3,
        ),
        Row(
            figure="pruning under that load",
            value=f"{deleted / seconds:,.0f} bots/s with their events",
            reference="100 bots/s, more than any pool produces",
            ratio=deleted / seconds / 100,
            aim="at least 1",
            met=deleted / seconds >= 100,
        ),
    ]


@contextmanager
def _pruned_beside() -> Iterator[list[tuple[int, float]]]:
    counts: list[tuple[int, float]] = []

    def work() -> None:
        begin = time.monotonic()
        pruned = next(count for name, count in prune(longest=PRUNED_SECONDS) if name == "bots")
        counts.append((pruned, time.monotonic() - begin))
        connection.close()

    count_history()
    thread = threading.Thread(target=work)
    # The thread opens its own connection: forked clients must not inherit one that is in use.
    thread.start()
    yield counts
    thread.join()
