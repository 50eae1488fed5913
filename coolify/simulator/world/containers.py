"""Docker's containers on the servers."""

from collections.abc import Callable
from functools import partial

from coolify.simulator.clock import docker_time
from coolify.simulator.scheduler import Scheduler
from coolify.simulator.world.rows import Application, Container, Job
from coolify.simulator.world.world import World

LOG_LINES_KEPT = 100
LONGEST_RESTART_DELAY = 60.0


class Containers:
    """Starts, restarts and removes containers; the restart policy is `unless-stopped`."""

    def __init__(self, *, world: World, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self.booted: Callable[[Container], None] = lambda container: None

    def start(self, *, application: Application, job: Job) -> Container:
        assert job.deployment_uuid is not None
        pull = self._world.pulls[job.pull_id or 0]
        now = self._world.clock.now()
        container = Container(
            id=self._world.next_id(),
            application_uuid=application.uuid,
            server_uuid=application.server_uuid,
            deployment_uuid=job.deployment_uuid,
            image=pull.image,
            cold=pull.cold,
            started_at=now,
            life_started_at=now,
            environment=dict(job.environment),
        )
        self._world.containers[container.id] = container
        self.booted(container)
        self._world.tell("container started", **facts(container))
        return container

    def remove(self, container: Container, *, reason: str) -> None:
        if container.state == "running":
            self._close_life(container, code=137, reason=reason)
        container.state = "removed"
        container.environment, container.log = {}, []
        container.ended_at = self._world.clock.now()
        container.end_reason = reason
        self._world.containers.pop(container.id, None)
        self._world.ended_containers.append(container)
        self._world.tell("container removed", reason=reason, **facts(container))

    def exit(self, container: Container, *, code: int, reason: str) -> None:
        """End the current life; Docker restarts the container after a growing delay."""
        if container.state != "running":
            return
        self._close_life(container, code=code, reason=reason)
        container.state = "restarting"
        delay = min(0.1 * 2 ** min(container.lives, 10), LONGEST_RESTART_DELAY)
        container.restart_due = self._world.clock.after(
            delay, at_least=self._world.settings.shortest_restart
        )
        self._world.tell("container exited", code=code, reason=reason, **facts(container))
        self.await_restart(container)

    def await_restart(self, container: Container) -> None:
        assert container.restart_due is not None
        self._scheduler.at(container.restart_due, partial(self._restart, container.id))

    def _restart(self, container_id: int) -> None:
        with self._world.lock:
            container = self._world.containers.get(container_id)
            if container is None or container.state != "restarting":
                return
            container.state = "running"
            container.lives += 1
            container.life_started_at = self._world.clock.now()
            self.booted(container)
            self._world.tell("container restarted", **facts(container))

    def _close_life(self, container: Container, *, code: int, reason: str) -> None:
        container.exit_code = code
        container.past_lives.append(
            {
                "startedAt": container.life_started_at,
                "joinedAt": container.joined_at,
                "inCallSince": container.in_call_since,
                "endedAt": self._world.clock.now(),
                "code": code,
                "reason": reason,
                "reported": container.reported,
                "toldToLeave": container.told_to_leave,
            }
        )
        self.write_log(container, f"exited with {code}: {reason}")

    def write_log(self, container: Container, *lines: str) -> None:
        at = docker_time(self._world.clock.now())
        container.log += [f"{at} {line}" for line in lines]
        del container.log[:-LOG_LINES_KEPT]

    def seconds_to_stop(self, container: Container) -> float:
        """SIGTERM ends a healthy bot quickly; a hanging bot is killed after the grace period."""
        if container.plan.get("name") != "hang":
            return self._world.settings.stop_seconds
        application = self._world.applications.get(container.application_uuid)
        chosen = application.options.get("stop_grace_period") if application else None
        return float(chosen or self._world.settings.stop_grace_seconds)


def facts(container: Container) -> dict[str, object]:
    return {
        "container": container.id,
        "application": container.application_uuid,
        "deployment": container.deployment_uuid,
        "bot": container.bot_id,
        "epoch": container.epoch,
        "life": container.lives,
        "reported": container.reported,
        "told_to_leave": container.told_to_leave,
    }
