"""The simulator: builds its pieces, starts and stops them."""

import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from coolify.simulator.bots.bot import Bots
from coolify.simulator.bots.bot_api import BotApi
from coolify.simulator.clock import Clock
from coolify.simulator.http.api import PREFIX, Api, Route
from coolify.simulator.http.application_routes import ApplicationRoutes
from coolify.simulator.http.control import Control
from coolify.simulator.http.deployment_routes import DeploymentRoutes
from coolify.simulator.http.gateway import Gateway, Observer, Traffic
from coolify.simulator.http.instance_routes import InstanceRoutes
from coolify.simulator.http.notification_routes import NotificationRoutes
from coolify.simulator.http.server import HttpServer
from coolify.simulator.http.server_routes import ServerRoutes
from coolify.simulator.scheduler import Scheduler
from coolify.simulator.settings import Settings
from coolify.simulator.state import StateFile
from coolify.simulator.world.agent import Agent
from coolify.simulator.world.applications import Applications
from coolify.simulator.world.containers import Containers
from coolify.simulator.world.deployments import Deployments
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.images import Images
from coolify.simulator.world.jobs import Jobs
from coolify.simulator.world.notifications import Webhooks
from coolify.simulator.world.removals import Removals
from coolify.simulator.world.variables import Variables
from coolify.simulator.world.world import World


class Simulator:
    """A complete Coolify: `with Simulator(Settings(speed=1000)) as coolify: … coolify.api_url`.

    It answers at `listener`, a socket that listens already, or else listens where the settings say.
    """

    def __init__(
        self, settings: Settings | None = None, *, listener: socket.socket | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.world = World(settings=self.settings, clock=Clock(speed=self.settings.speed))
        self._scheduler = Scheduler(outbound_threads=self.settings.bot_threads)
        self._traffic = Traffic()
        self._state = self._state_file()
        self._faults = Faults(seed=self.settings.seed)
        self._build_docker()
        self._build_coolify()
        self._gateway = Gateway(
            world=self.world,
            faults=self._faults,
            api=Api(world=self.world, faults=self._faults, routes=self._routes()),
            control=self._control(),
            traffic=self._traffic,
        )
        # Bind before the state is loaded: the process that uses this port may use the state file.
        address = (self.settings.host, self.settings.port)
        self._http = HttpServer(address, gateway=self._gateway, listener=listener)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="simulator-http", daemon=True
        )

    def _build_docker(self) -> None:
        """Build what runs on the servers: images, containers and the bots in them."""
        world, scheduler = self.world, self._scheduler
        self._images = Images(world=world, faults=self._faults)
        self._containers = Containers(world=world, scheduler=scheduler)
        self._bots = Bots(
            world=world,
            scheduler=scheduler,
            containers=self._containers,
            api=BotApi(scheduler=scheduler),
        )

    def _build_coolify(self) -> None:
        """Build what Coolify does: deployments, stops, deletions and the agent."""
        world, faults, containers = self.world, self._faults, self._containers
        webhooks = Webhooks(world=world, scheduler=self._scheduler)
        self._jobs = Jobs(world=world, scheduler=self._scheduler)
        self._deployments = Deployments(
            world=world,
            jobs=self._jobs,
            images=self._images,
            containers=containers,
            faults=faults,
            webhooks=webhooks,
        )
        self._removals = Removals(
            world=world,
            jobs=self._jobs,
            images=self._images,
            containers=containers,
            deployments=self._deployments,
            faults=faults,
        )
        self.agent = Agent(
            world=world,
            scheduler=self._scheduler,
            jobs=self._jobs,
            containers=containers,
            images=self._images,
            faults=faults,
            webhooks=webhooks,
        )

    def _routes(self) -> list[Route]:
        world = self.world
        applications = Applications(world=world)
        return [
            *InstanceRoutes(world=world).routes(),
            *ServerRoutes(world=world).routes(),
            *ApplicationRoutes(
                world=world,
                applications=applications,
                variables=Variables(world=world),
                deployments=self._deployments,
                removals=self._removals,
                images=self._images,
            ).routes(),
            *NotificationRoutes(world=world).routes(),
            *DeploymentRoutes(
                world=world,
                applications=applications,
                deployments=self._deployments,
                faults=self._faults,
            ).routes(),
        ]

    def _control(self) -> Control:
        return Control(
            world=self.world,
            faults=self._faults,
            deployments=self._deployments,
            removals=self._removals,
            containers=self._containers,
            images=self._images,
            agent=self.agent,
            traffic=self._requests,
        )

    def _state_file(self) -> StateFile | None:
        path = self.settings.state_file
        return StateFile(world=self.world, path=Path(path)) if path else None

    def _requests(self) -> dict[str, Any]:
        return {
            "recent": list(self._traffic.recent),
            "counts": dict(self._traffic.counts),
            "total": self._traffic.counts.total(),
        }

    @property
    def url(self) -> str:
        return f"http://{self.settings.host}:{self._http.server_port}"

    @property
    def api_url(self) -> str:
        return self.url + PREFIX

    def observe(self, observer: Observer) -> None:
        """Call `observer` with every API request and its answer, on the request's thread."""
        self._traffic.observers.append(observer)

    def start(self) -> None:
        with self.world.lock:
            loaded = self._state.load() if self._state else False
            if not loaded:
                self.world.furnish()
            self.world.add_configured_servers()
            self._jobs.resume()
            self._bots.resume()
            self.agent.start()
        if self._state:
            self._state.start()
        self._scheduler.start()
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._http.shutdown()
        self._http.server_close()
        self._http.close_connections()
        self._scheduler.stop()
        if self._state:
            self._state.stop()

    def __enter__(self) -> "Simulator":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
