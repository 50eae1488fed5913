"""A simulated Coolify for tests, and a fake Botpool for its bots to call."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

from coolify.simulator.control_client import SimulatorControl
from coolify.simulator.settings import (
    DEFAULT_ENVIRONMENT,
    DEFAULT_PROJECT,
    DEFAULT_SERVER,
    DEFAULT_TOKEN,
    Settings,
)
from coolify.simulator.simulator import Simulator

IMAGE = "registry.example/bot"
NEVER = 1e9  # seconds on the simulator's clock: longer than any test


@contextmanager
def simulated_coolify(**settings: Any) -> Iterator[Simulator]:
    """By default, a thousand times as fast as Coolify and without rate or restart limits."""
    unlimited = {"speed": 1000, "rate_limit": None, "max_restart_count": 0}
    with Simulator(Settings(**unlimited | settings)) as simulator:
        yield simulator


def wait_until(condition: Callable[[], Any], *, seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it did not happen within {seconds:g} s"
        time.sleep(0.01)
    return found


class PlainApi:
    """Plain HTTP calls to the simulator's API, and its control path."""

    def __init__(self, simulator: Simulator, token: str = DEFAULT_TOKEN) -> None:
        self.simulator = simulator
        self.control = SimulatorControl(simulator.url)
        self.session = requests.Session()
        self.session.headers["Accept"] = "application/json"
        self.session.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        self.session.close()
        self.control.close()

    def call(self, method: str, path: str, **arguments: Any) -> requests.Response:
        return self.session.request(method, self.simulator.api_url + path, timeout=30, **arguments)

    def get(self, path: str, **arguments: Any) -> requests.Response:
        return self.call("GET", path, **arguments)

    def post(self, path: str, **arguments: Any) -> requests.Response:
        return self.call("POST", path, **arguments)

    def patch(self, path: str, **arguments: Any) -> requests.Response:
        return self.call("PATCH", path, **arguments)

    def delete(self, path: str, **arguments: Any) -> requests.Response:
        return self.call("DELETE", path, **arguments)

    def create(self, name: str = "slot", **fields: Any) -> str:
        body = new_application(name=name, **fields)
        response = self.post("/applications/dockerimage", json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["uuid"])

    def start(self, uuid: str, **query: Any) -> str | None:
        response = self.post(f"/applications/{uuid}/start", params=query)
        assert response.status_code == 200, response.text
        found = response.json().get("deployment_uuid")
        return str(found) if found else None

    def deployment_status(self, uuid: str | None) -> str:
        return str(self.get(f"/deployments/{uuid}").json()["status"])

    def status(self, uuid: str) -> str:
        return str(self.get(f"/applications/{uuid}").json()["status"])

    def run(self, uuid: str, **query: Any) -> str:
        """Start the application and wait until it is deployed and its status is written."""
        deployment = self.start(uuid, **query)
        wait_until(lambda: self.deployment_status(deployment) == "finished")
        wait_until(lambda: ("status", uuid) not in self.jobs())
        return str(deployment)

    def jobs(self) -> list[tuple[str, str]]:
        """The kind and the application of each job that waits or runs."""
        return [(each["kind"], each["application"]) for each in self.control.state()["jobs"]]

    def stop(self, uuid: str, **query: Any) -> None:
        query = {"docker_cleanup": "false"} | query
        assert self.post(f"/applications/{uuid}/stop", params=query).status_code == 200

    def running(self, uuid: str) -> list[dict[str, Any]]:
        containers = self.control.state()["containers"]
        return [each for each in containers if each["application_uuid"] == uuid]

    def set_bot_data(self, uuid: str, data: dict[str, Any]) -> None:
        encoded = base64.b64encode(json.dumps(data).encode()).decode()
        item = {"key": "BOT_DATA", "value": encoded, "is_literal": True, "is_runtime": True}
        response = self.patch(f"/applications/{uuid}/envs/bulk", json={"data": [item]})
        assert response.status_code == 201, response.text


def new_application(**fields: Any) -> dict[str, Any]:
    return {
        "project_uuid": DEFAULT_PROJECT,
        "server_uuid": DEFAULT_SERVER,
        "environment_name": DEFAULT_ENVIRONMENT,
        "docker_registry_image_name": IMAGE,
        "docker_registry_image_tag": "1",
        "ports_exposes": "3000",
        "autogenerate_domain": False,
        "is_consistent_container_name_enabled": True,
    } | fields


@dataclass
class BotCalls:
    """The calls of bots, and the answers they get."""

    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    should_leave: bool = False
    released: bool = False
    answer_as: int | None = None
    config: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    url: str = ""

    def statuses(self) -> list[str]:
        return [body["status"] for _, path, body in self.calls if path.endswith("/status")]

    def heartbeats(self) -> int:
        return sum(path.endswith("/heartbeat") for _, path, _ in self.calls)

    def fetches(self) -> list[str]:
        return [path for method, path, _ in self.calls if method == "GET"]

    def data(self, *, bot: int = 1, epoch: int = 1, **config: Any) -> dict[str, Any]:
        return {
            "botId": bot,
            "token": f"token-{bot}",
            "epoch": epoch,
            "apiUrl": self.url,
            "meetingUrl": "https://meet.example/abc",
            "botDisplayName": "Bot",
            "platform": "zoom",
            "correlationId": "c",
            "config": config,
        }


@contextmanager
def listening_botpool() -> Iterator[BotCalls]:
    """A real HTTP server that fakes Botpool's bot API."""
    calls = BotCalls()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            calls.calls.append((self.command, self.path, body))
            calls.tokens.add(self.headers.get("Authorization", ""))
            reply: dict[str, Any] = {"shouldLeave": calls.should_leave}
            if self.command == "GET":
                reply = {
                    "id": calls.answer_as,
                    "config": calls.config,
                    "released": calls.released,
                }
            content = json.dumps(reply).encode()
            self.send_response(calls.status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = True

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    calls.url = f"http://127.0.0.1:{server.server_port}/api/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield calls
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
