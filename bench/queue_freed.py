"""The time from an idle slot to the next bot in it, with all processes of Botpool running.

The bots of a simulated Coolify end their meetings through the API. The times are from the
database: the slot's transition to `idle` and the bot's event `DEPLOYING`.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import requests
from django.conf import settings
from django.db import connection

from api.keys import create_api_key
from bench.table import Row
from botpool.runtime.ports import serves_http
from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import DEFAULT_PROJECT, DEFAULT_SERVER, DEFAULT_TOKEN, Settings
from coolify.simulator.simulator import Simulator
from core.sql import fetch_all
from queues.models import QueueEntry
from slots.models import SlotTransition

SPEED = 60  # a start takes half a second, a meeting one second
PLATFORM = "google-meet"
SLOTS = 20
LINE = 40
HANDOVERS = 120
PATIENCE = 300.0
SHORT_MEETING = {
    "meetingUrl": "https://meet.google.com/abc-defg-hij",
    "queueTimeoutMs": 600_000,
    "config": {"simulate": {"plan": "normal", "meetingSeconds": SPEED}},
}

# A slot that becomes idle while the queue is empty has no next bot and does not count.
_WAITS = """
SELECT extract(epoch FROM given.at - freed.at)::float8 * 1000
FROM slots_slottransition AS freed
CROSS JOIN LATERAL (
    SELECT min(at) AS at FROM bots_botevent
    WHERE slot_name = freed.slot_name AND to_status = 'DEPLOYING' AND at > freed.at
) AS given
WHERE freed.to_status = 'idle' AND given.at IS NOT NULL
"""


def run() -> list[Row]:
    _empty()
    key = create_api_key(name="queue_freed")
    with _coolify() as coolify, _botpool(coolify) as address:
        _until(lambda: _enough_handovers(address, key=key), patience=PATIENCE, pause=0.1)
        waits = [milliseconds for (milliseconds,) in fetch_all(_WAITS, {})]
    return [
        _row("median", median(waits), most=100, count=len(waits)),
        _row("worst", max(waits), most=1000, count=len(waits)),
    ]


def _row(which: str, milliseconds: float, *, most: int, count: int) -> Row:
    return Row(
        figure=f"slot idle to next bot assigned, all processes running, {which} of {count}",
        value=f"{milliseconds:.1f} ms",
        reference=f"{most} ms",
        ratio=milliseconds / most,
        aim="below the reference",
        met=milliseconds < most,
    )


def _empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bots_bot, slots_slot, slots_pool, bots_botevent CASCADE")
        cursor.execute("TRUNCATE slots_slottransition, slots_deployment CASCADE")


def _enough_handovers(address: str, *, key: str) -> bool:
    """Return whether enough slots became free; until then, keep the queue long."""
    for _ in range(LINE - QueueEntry.objects.count()):
        headers = {"Authorization": f"Bearer {key}"}
        requests.post(f"{address}/api/v1/bots", json=SHORT_MEETING, headers=headers, timeout=30)
    return SlotTransition.objects.filter(to_status="idle").count() >= HANDOVERS


@contextmanager
def _coolify() -> Iterator[Simulator]:
    with Simulator(Settings(speed=SPEED, rate_limit=None, concurrent_builds=8)) as simulator:
        control = SimulatorControl(simulator.url)
        control.warm_image(settings.BOT_IMAGES[PLATFORM])
        control.close()
        yield simulator


@contextmanager
def _botpool(coolify: Simulator) -> Iterator[str]:
    """Run `manage.py up` and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    manage = str(Path(__file__).parent.parent / "manage.py")
    process = subprocess.Popen(
        [sys.executable, manage, "up", "--port", str(port)],
        env={
            **os.environ,
            "COOLIFY_API_URL": coolify.api_url,
            "COOLIFY_API_TOKEN": DEFAULT_TOKEN,
            "COOLIFY_PROJECT_UUID": DEFAULT_PROJECT,
            "COOLIFY_SERVER_UUID": DEFAULT_SERVER,
            "COOLIFY_RATE_LIMIT": "100000",
            "API_RATE_LIMIT": "0",
            "MAX_POOL_SIZE": str(SLOTS),
            "MAX_CONCURRENT_DEPLOYMENTS": "8",
        },
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until(lambda: serves_http(host="127.0.0.1", port=port), patience=120.0, pause=0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _until(happened: Callable[[], bool], *, patience: float, pause: float) -> None:
    deadline = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < deadline, f"did not happen within {patience:.0f} s"
        time.sleep(pause)
