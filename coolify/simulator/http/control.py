"""The control path: faults, settings, actions and the record. Coolify has no such path."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from coolify.simulator.http.scenes import Scenes
from coolify.simulator.http.server_routes import checked_cleanup
from coolify.simulator.messages import Answer, Refusal, Request, not_found, ok, refusal
from coolify.simulator.record import record, state
from coolify.simulator.values import check_fields, check_value
from coolify.simulator.world.agent import Agent
from coolify.simulator.world.containers import Containers
from coolify.simulator.world.deployments import Deployments
from coolify.simulator.world.faults import Fault, Faults
from coolify.simulator.world.images import Images
from coolify.simulator.world.removals import Removals
from coolify.simulator.world.rows import Application, Server
from coolify.simulator.world.world import World

CONTROL = "/_simulator"
SERVER_FIELDS = {
    "name",
    "usable",
    "proxy",
    "concurrent_builds",
    "deployment_queue_limit",
    "destinations",
}


class Control:
    def __init__(
        self,
        *,
        world: World,
        faults: Faults,
        deployments: Deployments,
        removals: Removals,
        containers: Containers,
        images: Images,
        agent: Agent,
        traffic: Callable[[], dict[str, Any]],
    ) -> None:
        self._world = world
        self._faults = faults
        self._deployments = deployments
        self._removals = removals
        self._containers = containers
        self._images = images
        self._agent = agent
        self._traffic = traffic
        self.down_until = 0.0
        self.scenes = Scenes(world=world, faults=faults, agent=agent)
        self._actions: dict[str, Callable[[dict[str, Any]], None]] = {
            "heal": self._heal,
            "restart-coolify": self._restart_coolify,
            "delete-application": self._delete_application,
            "crash-container": self._crash_container,
            "crash-any": self._crash_any,
            "lose-container": self._lose_container,
            "set-status": self._set_status,
            "agent-pass": lambda data: self._agent.report(),
            "server": self._change_server,
            "add-server": self._add_server,
            "warm-image": self._warm_image,
            "clean-up": self._clean_up,
            "prune-images": lambda data: self._images.prune(self._server(data).uuid),
        }

    def answer(self, request: Request) -> Answer:
        try:
            return self._answer(request)
        except Refusal as refused:
            return refused.answer
        except (ValueError, TypeError, KeyError) as error:
            return Answer(400, {"message": f"{type(error).__name__}: {error}"})

    def _answer(self, request: Request) -> Answer:
        name = request.path.removeprefix(CONTROL).strip("/")
        data = json_object(request.body) if request.body else {}
        if request.method == "GET":
            return self._show(name)
        if name == "faults" and request.method == "POST":
            check_fields(Fault, data)
            return ok(asdict(self._faults.add(Fault(**data))))
        if name == "faults" and request.method == "DELETE":
            self._faults.remove(int(request.query["id"]) if "id" in request.query else None)
            return ok(self._faults.listing())
        if name == "settings" and request.method == "PATCH":
            self._world.settings.change(data)
            return ok({})
        if name.startswith("scenes/") and request.method == "POST":
            on = request.query.get("on", "true") == "true"
            self.scenes.switch(name.removeprefix("scenes/"), on=on)
            return ok(self.scenes.listing())
        return self._act(name, data)

    def _show(self, name: str) -> Answer:
        views: dict[str, Callable[[], Any]] = {
            "faults": self._faults.listing,
            "scenes": self.scenes.listing,
            "state": lambda: state(self._world),
            "record": lambda: record(self._world),
            "requests": self._traffic,
        }
        if name not in views:
            raise not_found(f"Choose from {', '.join(views)}.")
        return ok(views[name]())

    def _act(self, name: str, data: dict[str, Any]) -> Answer:
        action = self._actions.get(name.removeprefix("actions/"))
        if action is None:
            raise not_found(f"Choose from {', '.join(self._actions)}.")
        action(data)
        self._world.touch()
        return ok({})

    def _heal(self, data: dict[str, Any]) -> None:
        self.scenes.heal()
        self.down_until = 0.0

    def _restart_coolify(self, data: dict[str, Any]) -> None:
        """Fail all queued and running deployments, and answer 502 during the outage."""
        outage = data.get("outage_seconds", 0)
        check_value("outage_seconds", outage, float)
        self._deployments.fail_all(why="Coolify was restarted.")
        self.down_until = self._world.clock.now() + outage
        self._world.tell("coolify restarted")

    def _delete_application(self, data: dict[str, Any]) -> None:
        application = self._application(data)
        if data.get("keep_container"):
            self._removals.forget(application)
        else:
            self._removals.wipe(application)

    def _crash_container(self, data: dict[str, Any]) -> None:
        containers = self._world.containers_of(self._application(data).uuid)
        if not containers:
            raise refusal(409, "No container is running.")
        for container in containers:
            self._containers.exit(container, code=139, reason="crashed")

    def _crash_any(self, data: dict[str, Any]) -> None:
        """Crash the container that has been running for longest, if there is one."""
        running = [each for each in self._world.containers.values() if each.state == "running"]
        for container in running[:1]:
            self._containers.exit(container, code=139, reason="crashed")

    def _lose_container(self, data: dict[str, Any]) -> None:
        for container in self._world.containers_of(self._application(data).uuid):
            self._containers.remove(container, reason="vanished")

    def _set_status(self, data: dict[str, Any]) -> None:
        self._world.set_status(self._application(data), status=text(data, "status"))

    def _change_server(self, data: dict[str, Any]) -> None:
        server = self._server(data)
        changes = {name: data[name] for name in SERVER_FIELDS & set(data)}
        check_fields(Server, changes)
        cleanup = data.get("docker_cleanup", {})
        check_value("docker_cleanup", cleanup, dict)
        cleanup = checked_cleanup(cleanup)
        if "reachable" in data:
            noticed = bool(data.get("noticed", True))
            self._agent.set_reachable(server, reachable=bool(data["reachable"]), noticed=noticed)
        for name, value in changes.items():
            setattr(server, name, value)
        server.docker_cleanup |= cleanup

    def _add_server(self, data: dict[str, Any]) -> None:
        self._world.add_server(uuid=text(data, "server"))

    def _warm_image(self, data: dict[str, Any]) -> None:
        self._images.keep(self._server(data), text(data, "image"))

    def _clean_up(self, data: dict[str, Any]) -> None:
        """Clean up the named server, or all of them."""
        chosen = [self._server(data)] if data.get("server") else self._world.servers.values()
        for server in chosen:
            self._agent.clean_up(server)

    def _application(self, data: dict[str, Any]) -> Application:
        application = self._world.applications.get(data["application"])
        if application is None:
            raise not_found("Application not found.")
        return application

    def _server(self, data: dict[str, Any]) -> Server:
        """The named server, or the first one."""
        uuid = data.get("server") or next(iter(self._world.servers))
        if uuid not in self._world.servers:
            raise not_found("Server not found.")
        return self._world.servers[uuid]


def json_object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise refusal(400, "The body must be a JSON object.")
    return found


def text(data: dict[str, Any], name: str) -> str:
    check_value(name, data[name], str)
    return str(data[name])
