"""All processes of Botpool beside a simulated Coolify, driven from outside through the API."""

import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db import connection

from botpool.runtime.ports import serves_http
from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.messages import Answer, Request
from coolify.simulator.settings import DEFAULT_PROJECT, DEFAULT_SERVER, DEFAULT_TOKEN, Settings
from coolify.simulator.simulator import Simulator
from slots.models import Slot
from slots.tokens import make_bot_token

# In real time, like the statuses and restarts of a real Coolify, which lag behind; only the starts
# are short. A stop shows after as long as was measured on a real one.
TIMES: dict[str, Any] = {
    "warm_pull_seconds": 0.1,
    "start_seconds": 0.4,
    "stop_seconds": 1.3,
    "boot_seconds": 0.1,
}
PLATFORM = "google-meet"
CLIENTS = 8
PATIENCE = 300.0
# Bots stay until the benchmark ends their meeting.
ENDLESS_MEETING = {
    "plan": "normal",
    "joinSeconds": 0,
    "waitingRoomSeconds": 0,
    "meetingSeconds": 1e9,
}
_STARTS_AND_STOPS = re.compile(r"/applications/(\w+)/(start|stop)$")


class SimulatedCoolify:
    """A Coolify with warm images that notes when it answered each start and stop."""

    def __init__(self, **changes: Any) -> None:
        self.simulator = Simulator(Settings(rate_limit=None, **TIMES, **changes))
        self.simulator.observe(self._note)
        self.control = SimulatorControl(self.simulator.url)
        self._answered: dict[str, list[tuple[float, str]]] = {"start": [], "stop": []}

    def __enter__(self) -> "SimulatedCoolify":
        self.simulator.__enter__()
        self.control.warm_image(settings.BOT_IMAGES[PLATFORM])
        return self

    def __exit__(self, *error: Any) -> None:
        self.control.close()
        self.simulator.__exit__(*error)

    def _note(self, request: Request, answer: Answer) -> None:
        found = _STARTS_AND_STOPS.search(request.path)
        if found and answer.status < 400:
            uuid, what = found.groups()
            self._answered[what].append((time.time(), uuid))

    def times(self, what: str, *, since: float, application: str = "") -> list[float]:
        """When starts or stops were answered, in order."""
        answered = self._answered[what]
        return sorted(at for at, uuid in answered if at >= since and application in ("", uuid))

    def wait_for(self, what: str, *, since: float, application: str = "", count: int = 1) -> float:
        """Wait for so many starts or stops; when the last of them was answered."""
        until(lambda: len(self.times(what, since=since, application=application)) >= count)
        return self.times(what, since=since, application=application)[count - 1]

    def shows_running(self, application: str) -> bool:
        world = self.simulator.world
        with world.lock:
            return str(world.applications[application].status).startswith("running")

    def gone_at(self, application: str, *, since: float) -> float | None:
        """When the application's container was removed."""
        world = self.simulator.world
        with world.lock:
            for event in reversed(world.events):
                if event["at"] < since:
                    return None
                if event["kind"] == "container removed" and event["application"] == application:
                    return float(event["at"])
        return None


@dataclass(frozen=True)
class Botpool:
    """Its API, as a client and the bots in their containers call it."""

    url: str
    key: str

    def request_bot(self, plan: dict[str, Any] = ENDLESS_MEETING) -> None:
        self._post("/api/v1/bots", _request(plan), token=self.key)

    def request_at_once(self, count: int) -> list[float]:
        """Send so many requests at the same moment, each on a connection of its own. The seconds
        until each was answered. In one thread, without an HTTP library: on these cores, hundreds
        of threads would measure themselves."""
        begin, seconds = time.perf_counter(), list[float]()
        with selectors.DefaultSelector() as sockets:
            for _ in range(count):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(self._address)
                sockets.register(client, selectors.EVENT_WRITE, bytearray())
            while len(seconds) < count:
                ready = sockets.select(timeout=60)
                assert ready, f"{count - len(seconds)} requests were not answered"
                for key, _ in ready:
                    if self._has_been_answered(sockets, key):
                        seconds.append(time.perf_counter() - begin)
        return seconds

    def _has_been_answered(
        self, sockets: selectors.BaseSelector, key: selectors.SelectorKey
    ) -> bool:
        client, answer = cast("socket.socket", key.fileobj), cast("bytearray", key.data)
        if key.events == selectors.EVENT_WRITE:
            client.sendall(self._raw_request)
            sockets.modify(client, selectors.EVENT_READ, answer)
            return False
        received = client.recv(65536)
        answer += received
        if received:
            return False
        assert answer.startswith(b"HTTP/1.1 201 "), bytes(answer[:200])
        sockets.unregister(client)
        client.close()
        return True

    @property
    def _address(self) -> tuple[str, int]:
        address = urlsplit(self.url)
        return str(address.hostname), int(address.port or 80)

    @cached_property
    def _raw_request(self) -> bytes:
        body = json.dumps(_request(ENDLESS_MEETING)).encode()
        lines = (
            "POST /api/v1/bots HTTP/1.1",
            "Host: {}:{}".format(*self._address),
            f"Authorization: Bearer {self.key}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return "\r\n".join((*lines, "", "")).encode() + body

    def say_done(self, slot: Slot) -> None:
        """As the bot that holds the slot."""
        path = f"/api/v1/bots/{slot.assigned_bot_id}/status"
        self._post(path, {"status": "DONE"}, token=make_bot_token(slot))

    def request_bots(self, count: int) -> None:
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda _: self.request_bot(), range(count)))

    def say_all_done(self) -> None:
        busy = list(Slot.objects.filter(status="busy"))
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(self.say_done, busy))

    def _post(self, path: str, body: dict[str, Any], *, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.post(f"{self.url}{path}", json=body, headers=headers, timeout=30)
        answer.raise_for_status()


def _request(plan: dict[str, Any]) -> dict[str, Any]:
    return {
        "meetingUrl": "https://meet.google.com/abc-defg-hij",
        "queueTimeoutMs": 600_000,
        "config": {"simulate": plan},
    }


@contextmanager
def botpool(coolify: SimulatedCoolify, *, key: str, port: int, **changes: str) -> Iterator[Botpool]:
    """Run `manage.py up` with the default settings, except for the changes."""
    manage = str(Path(__file__).parent.parent / "manage.py")
    process = subprocess.Popen(
        [sys.executable, manage, "up", "--no-demo", "--port", str(port)],
        env={
            **os.environ,
            "COOLIFY_API_URL": coolify.simulator.api_url,
            "COOLIFY_API_TOKEN": DEFAULT_TOKEN,
            "COOLIFY_PROJECT_UUID": DEFAULT_PROJECT,
            "COOLIFY_SERVER_UUID": DEFAULT_SERVER,
            "API_RATE_LIMIT": "0",
            **changes,
        },
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: serves_http(host="127.0.0.1", port=port))
        yield Botpool(f"http://127.0.0.1:{port}", key)
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def until(happened: Callable[[], object], *, pause: float = 0.005) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"did not happen within {PATIENCE:.0f} s"
        time.sleep(pause)


def slots(status: str) -> int:
    return Slot.objects.filter(status=status).count()


def empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE bots_bot, bots_botevent, slots_slot, slots_slottransition, slots_deployment,"
            " slots_warmimage, slots_watch, slots_finding, slots_lease, slots_pool,"
            " queues_queueentry, coolify_budget, coolify_serverreading, django_q_ormq"
            " RESTART IDENTITY CASCADE"
        )
