"""Routes for applications: create, read, change, start, stop, delete, variables and logs."""

from typing import Any

from coolify.simulator.clock import timestamp
from coolify.simulator.fields import flag, json_body, number
from coolify.simulator.http.api import Handler, Route
from coolify.simulator.messages import Answer, Request, ok, refusal
from coolify.simulator.world import applications as shapes
from coolify.simulator.world import variables as variable_shapes
from coolify.simulator.world.applications import Applications
from coolify.simulator.world.deployments import Deployments
from coolify.simulator.world.images import Images
from coolify.simulator.world.removals import Removals
from coolify.simulator.world.rows import Application
from coolify.simulator.world.variables import Variables
from coolify.simulator.world.world import World, new_uuid

DELETE_QUERY = frozenset(
    {"delete_configurations", "delete_volumes", "docker_cleanup", "delete_connected_networks"}
)
MOST_LOG_LINES = 10_000
# On some routes, Coolify omits the full stop.
NOT_FOUND = "Application not found"


class ApplicationRoutes:
    def __init__(
        self,
        *,
        world: World,
        applications: Applications,
        variables: Variables,
        deployments: Deployments,
        removals: Removals,
        images: Images,
    ) -> None:
        self._world = world
        self._applications = applications
        self._variables = variables
        self._deployments = deployments
        self._removals = removals
        self._images = images

    def routes(self) -> list[Route]:
        one = "/applications/{uuid}"
        return [
            Route("GET", "/applications", "read", self.listing, frozenset({"tag"})),
            Route("POST", "/applications/dockerimage", "write", self.create),
            Route("GET", one, "read", self.show),
            Route("PATCH", one, "write", self.update),
            Route("DELETE", one, "write", self.delete, DELETE_QUERY),
            Route("GET", f"{one}/logs", "read", self.logs, ignores_query=True),
            Route("GET", f"{one}/rollback-images", "read", self.rollback_images, since="4.3.0"),
            Route("GET", f"{one}/envs", "read", self.envs),
            Route("POST", f"{one}/envs", "write", self.create_env),
            Route("PATCH", f"{one}/envs", "write", self.update_env),
            Route("PATCH", f"{one}/envs/bulk", "write", self.update_envs),
            Route("DELETE", f"{one}/envs/{{env_uuid}}", "write", self.delete_env),
            self._action(f"{one}/start", self.start),
            self._action(f"{one}/stop", self.stop),
            self._action(f"{one}/restart", self.restart),
        ]

    def _action(self, path: str, handler: Handler) -> Route:
        return Route("POST", path, "deploy", handler, changes_state=True, ignores_query=True)

    def listing(self, request: Request) -> Answer:
        rows = self._applications.listing(tag=request.query.get("tag"))
        return ok([self._shown(each, with_settings=False) for each in rows])

    def show(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid)
        with_settings = self._world.settings.at_least("4.2.0")
        return ok(self._shown(application, with_settings=with_settings))

    def _shown(self, application: Application, *, with_settings: bool) -> dict[str, Any]:
        server, size = self._world.server_of(application), self._world.settings.application_bytes
        shown = shapes.as_json(application, server=server, with_settings=with_settings)
        return shapes.padded(shown, size=size) if size else shown

    def create(self, request: Request) -> Answer:
        data = json_body(request)
        application = self._applications.create(data)
        if data.get("instant_deploy") and not self._deployments.queue_is_full(application):
            self._deployments.request(application, instant=True)
        return Answer(201, {"uuid": application.uuid, "domains": application.fqdn})

    def update(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid, message=NOT_FOUND)
        self._applications.update(application, json_body(request))
        return ok({"uuid": application.uuid})

    def delete(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid, message=NOT_FOUND)
        flags = {name: flag(request, name, default=True) for name in DELETE_QUERY}
        self._removals.request_delete(application, docker_cleanup=flags["docker_cleanup"])
        return ok({"message": "Application deletion request queued."})

    def logs(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid)
        lines = min(number(request, "lines", default=100), MOST_LOG_LINES)
        if not self._world.server_of(application).reachable:
            return self._late(Answer(500, {"message": "Server Error"}), "ssh_seconds")
        running = self._world.containers_of(application.uuid)
        if not running:
            raise refusal(400, "Application is not running.")
        shown = running[-1].log[-lines:] if lines else []
        if request.query.get("show_timestamps") not in ("true", "1"):
            shown = [line.partition(" ")[2] for line in shown]
        return self._late(ok({"logs": "\n".join(shown)}), "logs_seconds")

    def _late(self, answer: Answer, setting: str) -> Answer:
        answer.delay = self._world.clock.real_seconds(getattr(self._world.settings, setting))
        return answer

    def rollback_images(self, request: Request, *, uuid: str) -> Answer:
        """As in Coolify, empty on any error: it proves presence only."""
        application = self._applications.get(uuid)
        server = self._world.server_of(application)
        found = self._images.tags(application) if server.reachable and server.functional else []
        running = {each.image for each in self._world.containers_of(application.uuid)}
        current = next(
            (tag for tag, _ in found if f"{application.image_name}:{tag}" in running), None
        )
        images = [
            {"tag": tag, "created_at": timestamp(moment), "is_current": tag == current}
            for tag, moment in found
        ]
        return ok({"current": current, "images": images})

    def envs(self, request: Request, *, uuid: str) -> Answer:
        rows = self._variables.of(self._applications.get(uuid))
        with_value = request.sees_secrets
        return ok([variable_shapes.as_json(each, with_value=with_value) for each in rows])

    def create_env(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid)
        variable = self._variables.create(application, json_body(request))
        return Answer(201, {"uuid": variable.uuid})

    def update_env(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid)
        variable = self._variables.update(application, json_body(request))
        return Answer(201, variable_shapes.as_json(variable, with_value=request.sees_secrets))

    def update_envs(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid, message=NOT_FOUND)
        data = json_body(request).get("data")
        if not isinstance(data, list) or not data:
            raise refusal(400, "Bulk data is required.")
        rows = self._variables.upsert_all(application, data)
        return Answer(
            201, [variable_shapes.as_json(each, with_value=request.sees_secrets) for each in rows]
        )

    def delete_env(self, request: Request, *, uuid: str, env_uuid: str) -> Answer:
        self._variables.delete(self._applications.get(uuid), uuid=env_uuid)
        return ok({"message": "Environment variable deleted."})

    def start(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid)
        force = flag(request, "force", default=False)
        instant = flag(request, "instant_deploy", default=False)
        return self._deploy(application, force=force, instant=instant)

    def restart(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid)
        return self._deploy(application, restart_only=True, message="Restart request queued.")

    def _deploy(
        self,
        application: Application,
        *,
        force: bool = False,
        instant: bool = False,
        restart_only: bool = False,
        message: str = "Deployment request queued.",
    ) -> Answer:
        if self._deployments.queue_is_full(application):
            # As in Coolify: the answer names a deployment that does not exist.
            return ok({"message": message, "deployment_uuid": new_uuid()})
        if self._deployments.pending(application) and not (force or instant):
            return ok({"message": "Deployment already queued for this commit."})
        deployment = self._deployments.request(
            application, force=force, instant=instant, restart_only=restart_only
        )
        return ok({"message": message, "deployment_uuid": deployment.uuid})

    def stop(self, request: Request, *, uuid: str) -> Answer:
        application = self._applications.get(uuid)
        cleanup = flag(request, "docker_cleanup", default=True)
        self._removals.request_stop(application, docker_cleanup=cleanup)
        return ok({"message": "Application stopping request queued."})
