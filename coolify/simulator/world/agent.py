"""Coolify's checks: copy container states to application statuses."""

import random

from coolify.simulator.scheduler import Scheduler
from coolify.simulator.world.containers import Containers
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.images import Images
from coolify.simulator.world.jobs import Following, Jobs
from coolify.simulator.world.notifications import Webhooks
from coolify.simulator.world.rows import Application, Container, Job, Server
from coolify.simulator.world.world import World

SHORTEST_PAUSE = 0.05


class Agent:
    """Reports Docker's state to Coolify once a minute, so a status can be wrong for that long.

    A report needs one of Coolify's job workers. While all are busy, the statuses stay as they are.
    """

    def __init__(
        self,
        *,
        world: World,
        scheduler: Scheduler,
        jobs: Jobs,
        containers: Containers,
        images: Images,
        faults: Faults,
        webhooks: Webhooks,
    ) -> None:
        self._world = world
        self._scheduler = scheduler
        self._jobs = jobs
        self._containers = containers
        self._images = images
        self._faults = faults
        self._webhooks = webhooks
        self._random = random.Random(world.settings.seed)  # noqa: S311 - a delay, not a secret
        jobs.teach("check", begin=self._check)
        jobs.teach("status", begin=self._begin_status, written=self._write_status)

    def start(self) -> None:
        self._schedule_pass()
        self._schedule_night()

    def _schedule_pass(self) -> None:
        pause = self._world.settings.agent_seconds
        moment = self._world.clock.after(pause, at_least=SHORTEST_PAUSE)
        self._scheduler.at(moment, self._pass_and_repeat)

    def _schedule_night(self) -> None:
        day = self._world.settings.cleanup_seconds
        self._scheduler.at(self._world.clock.after(day, at_least=1.0), self._night_and_repeat)

    def _night_and_repeat(self) -> None:
        self.clean_up_by_night()
        self._schedule_night()

    def clean_up_by_night(self) -> None:
        with self._world.lock:
            for server in self._world.servers.values():
                if server.docker_cleanup["force_docker_cleanup"]:
                    self.clean_up(server)

    def clean_up(self, server: Server) -> None:
        """Clean up one server now."""
        if server.reachable and server.functional:
            self._images.clean_up(server.uuid)
            self._webhooks.about_cleanup(server)

    def _pass_and_repeat(self) -> None:
        with self._world.lock:
            if self._jobs.free_workers:
                self.report()
            elif not self._jobs.is_queued("check"):
                self._jobs.submit(kind="check", application_uuid="")
        self._schedule_pass()

    def _check(self, job: Job) -> Following:
        self.report()
        return None

    def _begin_status(self, job: Job) -> Following:
        settings = self._world.settings
        soonest, latest = settings.soonest_status_seconds, settings.latest_status_seconds
        return ("written", self._random.uniform(soonest, latest))

    def _write_status(self, job: Job) -> Following:
        """Write the status of an application that was deployed a moment ago."""
        application = self._world.applications.get(job.application_uuid)
        if application is not None and self._is_within_reach(application):
            self._report_one(application, self._world.containers_of(application.uuid))
        return None

    def report(self) -> None:
        for server in self._world.servers.values():
            self._notice(server)
            self._count_empty_check(server)
        by_application: dict[str, list[Container]] = {}
        for container in self._world.containers.values():
            by_application.setdefault(container.application_uuid, []).append(container)
        for application in list(self._world.applications.values()):
            if self._is_seen(application):
                found = by_application.get(application.uuid, [])
                overlooked = found and self._is_hit("container_overlooked", application)
                self._report_one(application, [] if overlooked else found)

    def _count_empty_check(self, server: Server) -> None:
        on_it = (each.server_uuid == server.uuid for each in self._world.containers.values())
        server.empty_checks = 0 if server.proxy or any(on_it) else server.empty_checks + 1

    def _is_seen(self, application: Application) -> bool:
        server = self._world.server_of(application)
        return (
            self._is_within_reach(application)
            and not 0 < server.empty_checks <= self._world.settings.empty_server_checks
            and not self._is_hit("statuses_freeze", application)
        )

    def _is_within_reach(self, application: Application) -> bool:
        server = self._world.server_of(application)
        return server.reachable and server.functional

    def _is_hit(self, kind: str, application: Application) -> bool:
        server = self._world.server_of(application)
        return self._faults.strikes(kind, application=application.uuid, server=server.uuid)

    def _report_one(self, application: Application, containers: list[Container]) -> None:
        restarts = sum(each.lives - 1 for each in containers)
        if containers and restarts != application.restart_count:
            self._count_restarts(application, restarts)
        if 0 < application.max_restart_count <= restarts:
            self._give_up(application, containers)
            return
        status = self._observed_status(application, containers)
        if status.startswith("running"):
            application.last_online_at = self._world.clock.now()
        self._world.set_status(application, status=status)

    def _count_restarts(self, application: Application, restarts: int) -> None:
        if restarts > application.restart_count:
            application.last_restart_at = self._world.clock.now()
        application.restart_count = restarts
        application.updated_at = self._world.clock.now()
        self._world.touch()

    def _observed_status(self, application: Application, containers: list[Container]) -> str:
        if containers:
            return status_of(containers, application=application)
        until = self._world.clock.real_seconds(self._world.settings.degraded_seconds)
        since = application.last_restart_at
        recently = since is not None and self._world.clock.now() < since + until
        return "degraded:unhealthy" if recently else "exited:unhealthy"

    def _give_up(self, application: Application, containers: list[Container]) -> None:
        for container in containers:
            self._containers.remove(container, reason="restart limit reached")
        application.last_restart_at = None
        self._images.clean_up(application.server_uuid)
        self._world.set_status(application, status="exited:unhealthy")
        self._webhooks.about_restarts(application)

    def set_reachable(self, server: Server, *, reachable: bool, noticed: bool = True) -> None:
        """Cut the server off, or reconnect it; without `noticed`, the next report notices it."""
        server.reachable = reachable
        if noticed:
            self._notice(server)

    def _notice(self, server: Server) -> None:
        if server.seen_reachable != server.reachable:
            server.seen_reachable = server.reachable
            self._world.tell("server", server=server.uuid, reachable=server.reachable)
            self._webhooks.about_server(server)


def status_of(containers: list[Container], *, application: Application) -> str:
    states = {each.state for each in containers}
    if states == {"running"}:
        healthy = application.options.get("health_check_enabled")
        return "running:healthy" if healthy else "running:unknown"
    return "restarting:unknown" if states == {"restarting"} else "degraded:unhealthy"
