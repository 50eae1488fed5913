"""The state file: one JSON file, replaced as a whole."""

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from coolify.simulator.world.rows import (
    Application,
    Container,
    Deployment,
    Environment,
    EnvironmentVariable,
    Job,
    Project,
    Pull,
    Server,
)
from coolify.simulator.world.world import World

logger = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.25
EVENTS_SAVED = 5_000


class StateUnreadable(Exception):
    """The state file exists, but its content is not a simulator's state."""


class StateFile:
    """Saves the world soon after each change and once more when it stops."""

    def __init__(self, *, world: World, path: Path) -> None:
        self._world = world
        self._path = path
        self._saved_version = -1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulator-state", daemon=True)

    def load(self) -> bool:
        """Restore the world; return False if there is no state file."""
        if not self._path.exists():
            return False
        try:
            restore(self._world, json.loads(self._path.read_text()))
        except (ValueError, KeyError, TypeError) as error:
            raise StateUnreadable(f"{self._path}: {error}") from error
        return True

    def start(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Save once more, unless `start` was never called: keep a file that could not be read."""
        if self._thread.ident is None:
            return
        self._stop.set()
        self._thread.join(1.0)
        self.save()

    def save(self) -> None:
        with self._world.lock:
            if self._world.version == self._saved_version:
                return
            text = json.dumps(snapshot(self._world))
            self._saved_version = self._world.version
        replace_file(self._path, text)

    def _run(self) -> None:
        pause = SHORTEST_PAUSE
        while not self._stop.wait(pause):
            begun = time.monotonic()
            try:
                self.save()
            except OSError:
                logger.exception("The simulator could not save its state")
            # Spend at most a tenth of the time on saving: a large state is saved less often.
            pause = max(SHORTEST_PAUSE, 10 * (time.monotonic() - begun))


def replace_file(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # Readable by the owner only: the environment variables contain the bots' tokens.
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


def snapshot(world: World) -> dict[str, Any]:
    return {
        "lastId": world.last_id,
        "servers": rows(world.servers.values()),
        "projects": rows(world.projects.values()),
        "environments": rows(world.environments.values()),
        "applications": rows(world.applications.values()),
        "variables": [vars(each) for some in world.variables.values() for each in some],
        "deployments": rows(world.deployments.values()),
        "jobs": rows(world.jobs.values()),
        "pulls": rows(world.pulls.values()),
        "containers": rows(world.containers.values()),
        "endedContainers": rows(world.ended_containers),
        "events": list(world.events)[-EVENTS_SAVED:],
    }


def rows(some: Any) -> list[dict[str, Any]]:
    return [vars(each) for each in some]


def restore(world: World, saved: dict[str, Any]) -> None:
    world.last_id = saved["lastId"]
    world.servers = {each["uuid"]: Server(**each) for each in saved["servers"]}
    world.projects = {each["uuid"]: Project(**each) for each in saved["projects"]}
    world.environments = {each["id"]: Environment(**each) for each in saved["environments"]}
    world.applications = {each["uuid"]: Application(**each) for each in saved["applications"]}
    for each in saved["variables"]:
        variable = EnvironmentVariable(**each)
        world.variables.setdefault(variable.application_uuid, []).append(variable)
    world.deployments = {each["uuid"]: Deployment(**each) for each in saved["deployments"]}
    world.active = {uuid: each for uuid, each in world.deployments.items() if each.active}
    world.jobs = {each["id"]: Job(**each) for each in saved["jobs"]}
    world.pulls = {each["id"]: Pull(**each) for each in saved["pulls"]}
    world.containers = {each["id"]: Container(**each) for each in saved["containers"]}
    world.ended_containers = [Container(**each) for each in saved["endedContainers"]]
    world.events.extend(saved["events"])
