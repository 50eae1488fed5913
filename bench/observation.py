"""What it costs to observe 300 applications: by the list of all, and by the resources of a server.

The simulated Coolify's rows are as large as those of a real one. It runs in this process, so the
times include its own work; those of the CPU are of the calling thread alone.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

import requests
from django.db.models.functions import Now

from bench.processes import empty
from bench.table import Row
from coolify.client import Coolify
from coolify.client.image import Image
from coolify.simulator.settings import (
    DEFAULT_ENVIRONMENT,
    DEFAULT_PROJECT,
    DEFAULT_SERVER,
    DEFAULT_TOKEN,
    Settings,
)
from coolify.simulator.simulator import Simulator
from core.clock import database_now
from pool.controller.containers.changes import nothing_has_changed
from pool.controller.observe import observe
from slots.models import Slot
from slots.status import SlotStatus

APPLICATIONS = 300
APPLICATION_BYTES = 5_200
ROUNDS = 30
IMAGE = Image("registry.example/bot", "1")


@dataclass(frozen=True)
class Cost:
    size: int
    seconds: float
    cpu: float


def run() -> list[Row]:
    empty()
    with Simulator(Settings(rate_limit=None, application_bytes=APPLICATION_BYTES)) as simulator:
        coolify = Coolify(simulator.api_url, DEFAULT_TOKEN)
        _make_slots(coolify)
        observe(coolify)
        by_list = _measure(
            simulator, lambda: observe(coolify) is not None, "/applications", "/deployments"
        )
        by_resources = _measure(
            simulator,
            lambda: nothing_has_changed(coolify, now=database_now()),
            f"/servers/{DEFAULT_SERVER}/resources",
        )
    empty()
    return [
        _row("kB", by_resources.size / 1000, by_list.size / 1000, most=0.1),
        _row("ms", by_resources.seconds * 1000, by_list.seconds * 1000, most=0.5),
        _row("ms of CPU", by_resources.cpu * 1000, by_list.cpu * 1000, most=0.5),
    ]


def _make_slots(coolify: Coolify) -> None:
    """Idle slots, and one that is being stopped: the question that observations answer."""
    for number in range(1, APPLICATIONS + 1):
        name = f"pool-google-meet-{number:03}"
        made = coolify.create_application(
            project_uuid=DEFAULT_PROJECT,
            server_uuid=DEFAULT_SERVER,
            environment_name=DEFAULT_ENVIRONMENT,
            image=IMAGE,
            name=name,
        )
        Slot.objects.create(
            platform="google-meet",
            number=number,
            name=name,
            coolify_uuid=made.uuid,
            server_uuid=DEFAULT_SERVER,
            status=SlotStatus.IDLE,
        )
    Slot.objects.filter(number=1).update(
        status=SlotStatus.STOPPING,
        previous_status=SlotStatus.IDLE,
        stop_asked_at=Now() - timedelta(seconds=5),
    )


def _measure(simulator: Simulator, ask: Callable[[], bool], *paths: str) -> Cost:
    times = [_time(ask) for _ in range(ROUNDS)]
    return Cost(
        size=sum(_size(simulator, path) for path in paths),
        seconds=median(seconds for seconds, _ in times),
        cpu=median(cpu for _, cpu in times),
    )


def _time(ask: Callable[[], bool]) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.thread_time()
    answered = ask()
    took = time.perf_counter() - began, time.thread_time() - cpu
    if not answered:
        raise RuntimeError("Coolify was not observed")
    return took


def _size(simulator: Simulator, path: str) -> int:
    headers = {"Authorization": f"Bearer {DEFAULT_TOKEN}", "Accept": "application/json"}
    return len(requests.get(simulator.api_url + path, headers=headers, timeout=30).content)


def _row(unit: str, value: float, reference: float, *, most: float) -> Row:
    return Row(
        figure=f"{unit} to learn that {APPLICATIONS} applications have not changed, by resources",
        value=f"{value:.1f} {unit}",
        reference=f"by list {reference:.1f} {unit}",
        ratio=value / reference,
        aim=f"≤ {most}",
        met=value / reference <= most,
    )
