"""Coolify's agent: copies container states to application statuses."""

from coolify.simulator.scheduler import Scheduler
from coolify.simulator.world.containers import Containers
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.notifications import Webhooks
from coolify.simulator.world.rows import Application, Container, Server
from coolify.simulator.world.world import World

SHORTEST_PAUSE = 0.05


class Agent:
    """Reports Docker's state to Coolify once a minute, so a status can be wrong for that long."""

    def __init__(
        self,
        *,
        world: World,
        scheduler: Scheduler,
        containers: Containers,
        faults: Faults,
        webhooks: Webhooks,
    ) -> None:
        self._world = world
        self._scheduler = scheduler
        self._containers = containers
        self._faults = faults
        self._webhooks = webhooks

    def start(self) -> None:
        pause = self._world.settings.agent_seconds
        moment = self._world.clock.after(pause, at_least=SHORTEST_PAUSE)
        self._scheduler.at(moment, self._pass_and_repeat)

    def _pass_and_repeat(self) -> None:
        with self._world.lock:
            self.report()
        self.start()

    def report(self) -> None:
        by_application: dict[str, list[Container]] = {}
        for container in self._world.containers.values():
            by_application.setdefault(container.application_uuid, []).append(container)
        for application in list(self._world.applications.values()):
            if self._is_seen(application):
                found = by_application.get(application.uuid, [])
                overlooked = found and self._is_hit("container_overlooked", application)
                self._report_one(application, [] if overlooked else found)

    def _is_seen(self, application: Application) -> bool:
        server = self._world.server_of(application)
        return server.reachable and not self._is_hit("statuses_freeze", application)

    def _is_hit(self, kind: str, application: Application) -> bool:
        server = self._world.server_of(application)
        return self._faults.strikes(kind, application=application.uuid, server=server.uuid)

    def _report_one(self, application: Application, containers: list[Container]) -> None:
        restarts = sum(each.lives - 1 for each in containers)
        if containers and restarts != application.restart_count:
            application.restart_count = restarts
            application.updated_at = self._world.clock.now()
            self._world.touch()
        if 0 < application.max_restart_count <= restarts:
            self._give_up(application, containers)
            return
        status = observed_status(application, containers)
        if status.startswith("running"):
            application.last_online_at = self._world.clock.now()
        self._world.set_status(application, status=status)

    def _give_up(self, application: Application, containers: list[Container]) -> None:
        for container in containers:
            self._containers.remove(container, reason="restart limit reached")
        self._world.set_status(application, status="exited:unhealthy")
        self._webhooks.about_restarts(application)

    def set_reachable(self, server: Server, *, reachable: bool) -> None:
        if server.reachable != reachable:
            server.reachable = reachable
            self._world.tell("server", server=server.uuid, reachable=reachable)
            self._webhooks.about_server(server)


def observed_status(application: Application, containers: list[Container]) -> str:
    states = {each.state for each in containers}
    if not states:
        return "exited:unhealthy"
    if states == {"running"}:
        healthy = application.options.get("health_check_enabled")
        return "running:healthy" if healthy else "running:unknown"
    return "restarting:unknown" if states == {"restarting"} else "degraded:unhealthy"
