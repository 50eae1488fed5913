"""The state of the simulated Coolify."""

import secrets
import string
import threading
from collections import deque
from typing import Any

from coolify.simulator.clock import Clock
from coolify.simulator.settings import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT, Settings
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

EVENTS_KEPT = 50_000


class World:
    """Everything that the simulated Coolify stores and that runs on its servers.

    Hold `lock` to read or write rows. After a change, call `tell` or `touch`.
    """

    def __init__(self, *, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.lock = threading.RLock()
        self.version = 0
        self.last_id = 0
        self.servers: dict[str, Server] = {}
        self.projects: dict[str, Project] = {}
        self.environments: dict[int, Environment] = {}
        self.applications: dict[str, Application] = {}
        self.variables: dict[str, list[EnvironmentVariable]] = {}
        self.deployments: dict[str, Deployment] = {}
        self.active: dict[str, Deployment] = {}
        self.jobs: dict[int, Job] = {}
        self.pulls: dict[int, Pull] = {}
        self.containers: dict[int, Container] = {}
        self.ended_containers: list[Container] = []
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)

    def furnish(self) -> None:
        """Create one project with one environment."""
        project = Project(id=self.next_id(), uuid=DEFAULT_PROJECT, name="Simulated project")
        self.projects[project.uuid] = project
        self.add_environment(name=DEFAULT_ENVIRONMENT, project_uuid=project.uuid)

    def add_configured_servers(self) -> None:
        for uuid in self.settings.servers:
            if uuid not in self.servers:
                self.add_server(uuid=uuid)

    def add_environment(self, *, name: str, project_uuid: str) -> Environment:
        environment = Environment(
            id=self.next_id(), uuid=new_uuid(), name=name, project_uuid=project_uuid
        )
        self.environments[environment.id] = environment
        return environment

    def add_server(self, *, uuid: str) -> Server:
        number = len(self.servers) + 1
        server = Server(
            id=self.next_id(),
            uuid=uuid,
            name=f"server-{number}",
            ip=f"10.0.0.{number}",
            concurrent_builds=self.settings.concurrent_builds,
            deployment_queue_limit=self.settings.deployment_queue_limit,
            destinations=[f"{uuid}-destination"],
        )
        self.servers[uuid] = server
        return server

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def touch(self) -> None:
        self.version += 1

    def tell(self, kind: str, **facts: Any) -> None:
        self.events.append({"at": self.clock.now(), "kind": kind, **facts})
        self.touch()

    def server_of(self, application: Application) -> Server:
        return self.servers[application.server_uuid]

    def containers_of(self, application_uuid: str) -> list[Container]:
        return [
            each for each in self.containers.values() if each.application_uuid == application_uuid
        ]

    def deployments_of(self, application_uuid: str) -> list[Deployment]:
        return [
            each for each in self.deployments.values() if each.application_uuid == application_uuid
        ]

    def active_deployments(self) -> list[Deployment]:
        return list(self.active.values())

    def set_status(self, application: Application, *, status: str) -> None:
        if application.status != status:
            self.tell(
                "status", application=application.uuid, was=application.status, becomes=status
            )
            application.status = status
            application.updated_at = self.clock.now()


def new_uuid() -> str:
    """24 lowercase letters and digits, starting with a letter, as in Coolify."""
    alphabet = string.ascii_lowercase + string.digits
    rest = "".join(secrets.choice(alphabet) for _ in range(23))
    return secrets.choice(string.ascii_lowercase) + rest
