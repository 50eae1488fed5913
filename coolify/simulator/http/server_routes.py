"""Routes for servers: read, change, their resources, destinations and clean-up settings."""

from collections.abc import Mapping
from typing import Any

from coolify.simulator.clock import timestamp
from coolify.simulator.fields import checked, json_body
from coolify.simulator.http.api import Route
from coolify.simulator.messages import Answer, Request, invalid, not_found, ok
from coolify.simulator.world.rows import DOCKER_CLEANUP, Application, Server
from coolify.simulator.world.world import World

UPDATE_FIELDS: dict[str, type] = {
    **dict.fromkeys(("name", "description", "ip", "user", "private_key_uuid", "proxy_type"), str),
    **dict.fromkeys(
        ("port", "concurrent_builds", "deployment_queue_limit", "dynamic_timeout"), int
    ),
    **dict.fromkeys(("is_build_server", "instant_validate"), bool),
}
KEPT = ("name", "ip", "concurrent_builds", "deployment_queue_limit")
CLEANUP_FIELDS: dict[str, type] = {name: type(value) for name, value in DOCKER_CLEANUP.items()}


class ServerRoutes:
    def __init__(self, *, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        one = "/servers/{uuid}"
        return [
            Route("GET", "/servers", "read", self.listing),
            Route("GET", one, "read", self.show),
            Route("PATCH", one, "write", self.update),
            Route("GET", f"{one}/resources", "read", self.resources),
            Route("GET", f"{one}/destinations", "read", self.destinations),
            Route("GET", f"{one}/docker-cleanup", "read", self.cleanup, since="4.3.0"),
            Route("PATCH", f"{one}/docker-cleanup", "write", self.change_cleanup, since="4.3.0"),
        ]

    def listing(self, request: Request) -> Answer:
        return ok([as_json(each) for each in self._world.servers.values()])

    def show(self, request: Request, *, uuid: str) -> Answer:
        return ok(as_json(self._server(uuid)))

    def update(self, request: Request, *, uuid: str) -> Answer:
        data = json_body(request)
        checked(data, allowed=UPDATE_FIELDS)
        small = [name for name, value in data.items() if type(value) is int and value < 1]
        if small:
            raise invalid({name: [f"The {name} field must be at least 1."] for name in small})
        server = self._server(uuid)
        for name in KEPT:
            if data.get(name) is not None:
                setattr(server, name, data[name])
        self._world.touch()
        return Answer(201, {"uuid": server.uuid})

    def resources(self, request: Request, *, uuid: str) -> Answer:
        server = self._server(uuid)
        return ok(
            [
                resource_json(each)
                for each in self._world.applications.values()
                if each.server_uuid == server.uuid
            ]
        )

    def destinations(self, request: Request, *, uuid: str) -> Answer:
        server = self._server(uuid)
        return ok([destination_json(each, server=server) for each in server.destinations])

    def cleanup(self, request: Request, *, uuid: str) -> Answer:
        return ok(self._server(uuid).docker_cleanup)

    def change_cleanup(self, request: Request, *, uuid: str) -> Answer:
        server = self._server(uuid)
        server.docker_cleanup |= checked_cleanup(json_body(request))
        self._world.touch()
        return ok(server.docker_cleanup)

    def _server(self, uuid: str) -> Server:
        server = self._world.servers.get(uuid)
        if server is None:
            raise not_found("Server not found.")
        return server


def checked_cleanup(data: Mapping[str, Any]) -> dict[str, Any]:
    checked(data, allowed=CLEANUP_FIELDS)
    return dict(data)


def as_json(server: Server) -> dict[str, Any]:
    return {
        "uuid": server.uuid,
        "name": server.name,
        "description": "",
        "ip": server.ip,
        "user": "root",
        "port": 22,
        "proxy_type": "traefik",
        "is_reachable": server.seen_reachable,
        "is_usable": server.functional,
        "settings": {
            "id": server.id,
            "server_id": server.id,
            "concurrent_builds": server.concurrent_builds,
            "deployment_queue_limit": server.deployment_queue_limit,
            "dynamic_timeout": 3600,
            "is_reachable": server.seen_reachable,
            "is_usable": server.functional,
            "is_sentinel_enabled": True,
            **server.docker_cleanup,
        },
    }


def resource_json(application: Application) -> dict[str, Any]:
    return {
        "id": application.id,
        "uuid": application.uuid,
        "name": application.name,
        "type": "application",
        "created_at": timestamp(application.created_at),
        "updated_at": timestamp(application.updated_at),
        "status": application.status,
    }


def destination_json(uuid: str, *, server: Server) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": f"{server.name}-coolify",
        "network": "coolify",
        "type": "standalone",
        "server_uuid": server.uuid,
    }
