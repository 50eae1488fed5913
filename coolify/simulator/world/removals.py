"""Stopping and deleting applications."""

from coolify.simulator.world.containers import Containers
from coolify.simulator.world.deployments import Deployments
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.images import Images
from coolify.simulator.world.jobs import Following, Jobs
from coolify.simulator.world.rows import Application, Container, Job
from coolify.simulator.world.world import World


class Removals:
    """Queues stops and deletions. Each acts on the containers that exist when it runs."""

    def __init__(
        self,
        *,
        world: World,
        jobs: Jobs,
        images: Images,
        containers: Containers,
        deployments: Deployments,
        faults: Faults,
    ) -> None:
        self._world = world
        self._jobs = jobs
        self._images = images
        self._containers = containers
        self._deployments = deployments
        self._faults = faults
        jobs.teach(
            "stop", begin=self._begin_stop, stopped=self._stopped, refused=self._write_exited
        )
        jobs.teach("delete", begin=self._begin_delete, deleted=self._deleted)

    def request_stop(self, application: Application, *, docker_cleanup: bool) -> None:
        self._world.tell("stop requested", application=application.uuid)
        self._jobs.submit(
            kind="stop", application_uuid=application.uuid, docker_cleanup=docker_cleanup
        )

    def request_delete(self, application: Application, *, docker_cleanup: bool) -> None:
        self._world.tell("deletion requested", application=application.uuid)
        self._jobs.submit(
            kind="delete", application_uuid=application.uuid, docker_cleanup=docker_cleanup
        )

    def _begin_stop(self, job: Job) -> Following:
        application = self._world.applications.get(job.application_uuid)
        if application is None or not self._world.server_of(application).functional:
            return None
        where = {"application": application.uuid, "server": application.server_uuid}
        if self._faults.strikes("stop_ignored", **where):
            return None
        if not self._can_work_on(application) or self._faults.strikes("stop_refused", **where):
            return ("refused", self._world.settings.refused_stop_seconds)
        return ("stopped", self._seconds_to_stop(self._world.containers_of(application.uuid)))

    def _stopped(self, job: Job) -> None:
        application = self._world.applications.get(job.application_uuid)
        if application is None:
            return
        for container in self._world.containers_of(application.uuid):
            self._containers.remove(container, reason="stopped")
        self._write_exited(job)
        if job.docker_cleanup:
            self._images.clean_up(application.server_uuid)

    def _write_exited(self, job: Job) -> None:
        """As in Coolify, which does not ask whether Docker really stopped the container."""
        application = self._world.applications.get(job.application_uuid)
        if application is None or not self._world.settings.at_least("4.3.3"):
            return
        application.restart_count = 0
        application.last_restart_at = None
        self._world.set_status(application, status="exited:unhealthy")

    def _begin_delete(self, job: Job) -> Following:
        containers = self._world.containers_of(job.application_uuid)
        grace = self._seconds_to_stop(containers) if containers else 0.0
        return ("deleted", max(self._world.settings.delete_seconds, grace))

    def _deleted(self, job: Job) -> None:
        application = self._world.applications.get(job.application_uuid)
        if application is None:
            return
        survives = self._faults.strikes("container_survives", application=application.uuid)
        if survives or not self._can_work_on(application):
            self.forget(application)
        else:
            self.wipe(application)
        if job.docker_cleanup:
            self._images.clean_up(application.server_uuid)

    def wipe(self, application: Application) -> None:
        """Delete the application and its containers."""
        for container in self._world.containers_of(application.uuid):
            self._containers.remove(container, reason="application deleted")
        self.forget(application)

    def forget(self, application: Application) -> None:
        """Delete the application; its containers keep running."""
        self._world.applications.pop(application.uuid, None)
        self._world.variables.pop(application.uuid, None)
        self._world.tell("application deleted", application=application.uuid)
        for deployment in self._world.active_deployments():
            if deployment.application_uuid == application.uuid:
                self._deployments.fail(deployment, why="Application is gone.")

    def _can_work_on(self, application: Application) -> bool:
        server = self._world.server_of(application)
        return server.reachable and server.functional

    def _seconds_to_stop(self, containers: list[Container]) -> float:
        slowest = [self._containers.seconds_to_stop(each) for each in containers]
        return max(slowest, default=self._world.settings.stop_seconds)
