"""Routes for the instance: version, health, projects."""

from coolify.simulator.http.api import Route
from coolify.simulator.messages import HTML, Answer, Request, not_found, ok
from coolify.simulator.world.world import World


class InstanceRoutes:
    def __init__(self, *, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/version", "read", self.version),
            Route("GET", "/health", None, self.health),
            Route("GET", "/projects", "read", self.projects),
            Route("GET", "/projects/{uuid}/environments", "read", self.environments),
        ]

    def version(self, request: Request) -> Answer:
        return Answer(200, self._world.settings.version, HTML)

    def health(self, request: Request) -> Answer:
        return Answer(200, "OK", HTML)

    def projects(self, request: Request) -> Answer:
        return ok(
            [
                {
                    "id": each.id,
                    "uuid": each.uuid,
                    "name": each.name,
                    "description": each.description,
                }
                for each in self._world.projects.values()
            ]
        )

    def environments(self, request: Request, *, uuid: str) -> Answer:
        if uuid not in self._world.projects:
            raise not_found("Project not found.")
        return ok(
            [
                {"id": each.id, "name": each.name, "uuid": each.uuid}
                for each in self._world.environments.values()
                if each.project_uuid == uuid
            ]
        )
