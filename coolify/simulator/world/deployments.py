"""Deployments: their queues and their steps."""

from coolify.simulator.clock import docker_time
from coolify.simulator.world.containers import Containers
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.images import Images
from coolify.simulator.world.jobs import Following, Jobs
from coolify.simulator.world.notifications import Webhooks
from coolify.simulator.world.rows import Application, Deployment, Job
from coolify.simulator.world.variables import container_environment, file_size
from coolify.simulator.world.world import World, new_uuid


class Deployments:
    """Queues deployments per server and runs their steps."""

    def __init__(
        self,
        *,
        world: World,
        jobs: Jobs,
        images: Images,
        containers: Containers,
        faults: Faults,
        webhooks: Webhooks,
    ) -> None:
        self._world = world
        self._jobs = jobs
        self._images = images
        self._containers = containers
        self._faults = faults
        self._webhooks = webhooks
        jobs.teach(
            "deploy",
            begin=self._begin,
            pulled=self._pulled,
            up=self._up,
            replace=self._replace,
        )

    def queue_is_full(self, application: Application) -> bool:
        server = self._world.server_of(application)
        queued = sum(
            each.status == "queued" and each.server_uuid == server.uuid
            for each in self._world.active_deployments()
        )
        return queued >= server.deployment_queue_limit

    def pending(self, application: Application) -> Deployment | None:
        mine = (
            each
            for each in self._world.active_deployments()
            if each.application_uuid == application.uuid
        )
        return next(mine, None)

    def request(
        self,
        application: Application,
        *,
        force: bool = False,
        instant: bool = False,
        restart_only: bool = False,
    ) -> Deployment:
        deployment = self._new(application, force=force, restart_only=restart_only)
        where = {"application": application.uuid, "server": application.server_uuid}
        deployment.stuck = self._faults.strikes("stuck_queued", **where)
        if not deployment.stuck and (instant or self._may_begin(deployment)):
            self._dispatch(deployment)
        return deployment

    def _new(self, application: Application, *, force: bool, restart_only: bool) -> Deployment:
        now = self._world.clock.now()
        deployment = Deployment(
            id=self._world.next_id(),
            uuid=new_uuid(),
            application_uuid=application.uuid,
            application_id=application.id,
            application_name=application.name,
            server_uuid=application.server_uuid,
            server_name=self._world.server_of(application).name,
            created_at=now,
            updated_at=now,
            force=force,
            restart_only=restart_only,
        )
        self._world.deployments[deployment.uuid] = deployment
        self._world.active[deployment.uuid] = deployment
        self._world.tell(
            "deployment queued", deployment=deployment.uuid, application=application.uuid
        )
        return deployment

    def _may_begin(self, deployment: Deployment) -> bool:
        """Allow one deployment per application, and as many per server as it has build places."""
        underway = [
            each
            for each in self._world.active_deployments()
            if each.status == "in_progress" and each.server_uuid == deployment.server_uuid
        ]
        same = any(each.application_uuid == deployment.application_uuid for each in underway)
        places = self._world.servers[deployment.server_uuid].concurrent_builds
        return not same and len(underway) < places

    def _dispatch(self, deployment: Deployment) -> None:
        """As in Coolify, the deployment is in progress even if no job worker is free yet."""
        self._set_status(deployment, "in_progress")
        self._jobs.submit(
            kind="deploy",
            application_uuid=deployment.application_uuid,
            deployment_uuid=deployment.uuid,
        )

    def _dispatch_waiting(self) -> None:
        for deployment in self._world.active_deployments():
            waits = deployment.status == "queued" and not deployment.stuck
            if waits and self._may_begin(deployment):
                self._dispatch(deployment)

    def cancel(self, deployment: Deployment) -> None:
        self._end(deployment, status="cancelled-by-user", why="Deployment cancelled by user.")

    def fail(self, deployment: Deployment, *, why: str) -> None:
        self._end(deployment, status="failed", why=why)
        self._webhooks.about_deployment(deployment=deployment, succeeded=False)

    def fail_all(self, *, why: str) -> None:
        queued_first = sorted(
            self._world.active_deployments(), key=lambda each: each.status == "in_progress"
        )
        for deployment in queued_first:  # a failed build would otherwise start a queued one
            self.fail(deployment, why=why)

    def _end(self, deployment: Deployment, *, status: str, why: str) -> None:
        self._write(deployment, why, kind="stdout" if status == "finished" else "stderr")
        deployment.finished_at = self._world.clock.now()
        self._world.active.pop(deployment.uuid, None)
        self._set_status(deployment, status)
        job = self._jobs.of_deployment(deployment.uuid)
        if job is not None:
            self._images.abandon(job)
            self._jobs.drop(job)
        self._dispatch_waiting()

    def _write(
        self, deployment: Deployment, output: str, *, kind: str = "stdout", hidden: bool = False
    ) -> None:
        deployment.log.append(
            {
                "command": None,
                "output": output,
                "type": kind,
                "timestamp": docker_time(self._world.clock.now()),
                "hidden": hidden,
                "batch": 1,
                "order": len(deployment.log) + 1,
            }
        )

    def _set_status(self, deployment: Deployment, status: str) -> None:
        deployment.status = status
        deployment.updated_at = self._world.clock.now()
        self._world.tell(
            f"deployment {status}",
            deployment=deployment.uuid,
            application=deployment.application_uuid,
        )

    # The steps of a deployment, in order.

    def _begin(self, job: Job) -> Following:
        deployment, application = self._subjects(job)
        where = {"application": job.application_uuid, "server": deployment.server_uuid}
        if application is None or not self._can_work_on(deployment):
            return self._fail_job(deployment, why="Server is not functional.")
        if self._faults.strikes("stuck_in_progress", **where):
            return ("hung", None)  # holds its build place and its job worker until cancelled
        if not application.image_name:
            return self._fail_job(deployment, why="The application has no image.")
        if application.keeps_container_name:  # Coolify stops the old container before the pull
            self._remove_all_but(application, deployment=deployment)
        job.environment = container_environment(
            self._world.variables.get(application.uuid, []), application=application
        )
        if file_size(job.environment) > self._world.settings.longest_environment:
            return self._fail_job(deployment, why="The .env file is too long.")
        pull = self._images.begin_pull(application=application, deployment=deployment)
        job.pull_id = pull.id
        name, server = deployment.application_name, deployment.server_name
        self._write(deployment, f"Starting deployment of {name} to {server}.")
        self._write(deployment, f"tee .env {job.environment}", hidden=True)
        self._write(deployment, f"Pulling latest image ({pull.image}) from the registry.")
        return ("pulled", self._images.seconds_for(pull))

    def _pulled(self, job: Job) -> Following:
        deployment, _ = self._subjects(job)
        pull = self._world.pulls[job.pull_id or 0]
        where = {"application": job.application_uuid, "server": deployment.server_uuid}
        if not self._images.end_pull(pull):
            unknown = f"manifest for {pull.image} not found: manifest unknown"
            self._write(deployment, f"Error response from daemon: {unknown}", kind="stderr")
            return self._fail_job(deployment, why=f"Pulling {pull.image} failed.")
        self._write(
            deployment, f"Status: Image is up to date for {pull.image}\nStarting container."
        )
        if self._faults.strikes("deployment_fails", **where):
            limit = "Error response from daemon: failed to create task: no space left on device"
            self._write(deployment, limit, kind="stderr")
            return self._fail_job(deployment, why="docker compose up failed.")
        return ("up", self._world.settings.start_seconds)

    def _up(self, job: Job) -> Following:
        deployment, application = self._subjects(job)
        if application is None or not self._can_work_on(deployment):
            return self._fail_job(deployment, why="Server is not functional.")
        old = self._world.containers_of(application.uuid)
        if application.keeps_container_name:
            self._remove_all_but(application, deployment=deployment)
        self._containers.start(application=application, job=job)
        if old and not application.keeps_container_name:
            return ("replace", self._world.settings.overlap_seconds)
        return self._finish(deployment, application)

    def _replace(self, job: Job) -> Following:
        """End a rolling update, during which the old and the new container both ran."""
        deployment, application = self._subjects(job)
        if application is None:
            return self._fail_job(deployment, why="Application is gone.")
        self._remove_all_but(application, deployment=deployment)
        return self._finish(deployment, application)

    def _finish(self, deployment: Deployment, application: Application) -> Following:
        """Coolify writes the application's status later, in a job of its own."""
        application.restart_count = 0
        application.last_restart_at = None
        self._end(deployment, status="finished", why="Container started.")
        self._jobs.submit(kind="status", application_uuid=application.uuid)
        self._webhooks.about_deployment(deployment=deployment, succeeded=True)
        return None

    def _can_work_on(self, deployment: Deployment) -> bool:
        server = self._world.servers[deployment.server_uuid]
        return server.reachable and server.functional

    def _fail_job(self, deployment: Deployment, *, why: str) -> Following:
        self.fail(deployment, why=why)
        return None

    def _remove_all_but(self, application: Application, *, deployment: Deployment) -> None:
        for container in self._world.containers_of(application.uuid):
            if container.deployment_uuid != deployment.uuid:
                self._containers.remove(container, reason="replaced by a new deployment")

    def _subjects(self, job: Job) -> tuple[Deployment, Application | None]:
        deployment = self._world.deployments[job.deployment_uuid or ""]
        return deployment, self._world.applications.get(job.application_uuid)
