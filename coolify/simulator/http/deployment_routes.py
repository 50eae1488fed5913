"""Routes for deployments: list, read, cancel, and `POST /deploy`."""

import json
from typing import Any

from coolify.simulator.clock import timestamp
from coolify.simulator.fields import flag, number
from coolify.simulator.http.api import Route
from coolify.simulator.messages import Answer, Refusal, Request, not_found, ok, refusal
from coolify.simulator.world.applications import Applications
from coolify.simulator.world.applications import as_json as application_json
from coolify.simulator.world.deployments import Deployments
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.notifications import link_to
from coolify.simulator.world.rows import Deployment
from coolify.simulator.world.world import World, new_uuid

DEPLOY_QUERY = frozenset({"uuid", "force", "tag", "pr", "pull_request_id", "docker_tag"})


class DeploymentRoutes:
    def __init__(
        self,
        *,
        world: World,
        applications: Applications,
        deployments: Deployments,
        faults: Faults,
    ) -> None:
        self._world = world
        self._applications = applications
        self._deployments = deployments
        self._faults = faults

    def routes(self) -> list[Route]:
        paging = frozenset({"skip", "take"})
        cancel = "/deployments/{uuid}/cancel"
        return [
            Route("GET", "/deployments", "read", self.listing),
            Route("GET", "/deployments/{uuid}", "read", self.show),
            Route("GET", "/deployments/applications/{uuid}", "read", self.history, paging),
            Route("POST", cancel, "deploy", self.cancel, changes_state=True),
            Route("POST", "/deploy", "deploy", self.deploy, DEPLOY_QUERY, changes_state=True),
        ]

    def listing(self, request: Request) -> Answer:
        stored = sorted(self._world.active_deployments(), key=lambda each: each.updated_at)
        places = {each.uuid: place for place, each in enumerate(stored)}
        rows = sorted(stored, key=lambda each: each.id)
        shown = [self._as_json(each, request) for each in rows]
        if shown and self._as_object(is_ordered=rows == stored):  # PHP encodes an empty one as []
            return ok({str(places[each.uuid]): row for each, row in zip(rows, shown, strict=True)})
        return ok(shown)

    def _as_object(self, *, is_ordered: bool) -> bool:
        """PHP keeps each row's place in the table as its key, and PostgreSQL moves changed rows."""
        wanted = self._world.settings.deployments_as_object
        return not is_ordered if wanted is None else wanted

    def show(self, request: Request, *, uuid: str) -> Answer:
        deployment = self._deployment(uuid)
        application = self._world.applications[deployment.application_uuid]
        server = self._world.server_of(application)
        nested = application_json(application, server=server, with_settings=False)
        return ok({**self._as_json(deployment, request), "application": nested})

    def _as_json(self, deployment: Deployment, request: Request) -> dict[str, Any]:
        application = self._world.applications[deployment.application_uuid]
        environment = self._world.environments[application.environment_id]
        link = link_to(deployment, environment=environment)
        return as_json(deployment, link=link, with_log=request.sees_secrets)

    def history(self, request: Request, *, uuid: str) -> Answer:
        if uuid not in self._world.applications:
            raise not_found("Application not found")  # Coolify omits the full stop here
        skip = number(request, "skip", default=0)
        take = number(request, "take", default=10)
        rows = self._world.deployments_of(uuid)[::-1]
        page = [self._as_json(each, request) for each in rows[skip : skip + take]]
        return ok({"count": len(rows), "deployments": page})

    def cancel(self, request: Request, *, uuid: str) -> Answer:
        deployment = self._deployment(uuid)
        if not deployment.active:
            raise refusal(
                400, f"Deployment cannot be cancelled. Current status: {deployment.status}"
            )
        self._deployments.cancel(deployment)
        if self._faults.strikes("cancel_answers_500", application=deployment.application_uuid):
            raise refusal(500, "Server Error")  # the deployment is cancelled all the same
        answer = ok(
            {
                "message": "Deployment cancelled successfully.",
                "deployment_uuid": deployment.uuid,
                "status": deployment.status,
            }
        )
        if not self._world.servers[deployment.server_uuid].reachable:  # it tries SSH first
            answer.delay = self._world.clock.real_seconds(self._world.settings.ssh_seconds)
        return answer

    def deploy(self, request: Request) -> Answer:
        wanted = [uuid for uuid in request.query.get("uuid", "").split(",") if uuid]
        if not wanted:
            raise refusal(400, "You must provide uuid or tag.")
        force = flag(request, "force", default=False)
        return ok({"deployments": [self._deploy_one(uuid, force=force) for uuid in wanted]})

    def _deploy_one(self, uuid: str, *, force: bool) -> dict[str, str]:
        application = self._applications.get(uuid)
        if self._deployments.queue_is_full(application):
            message = "Deployment queue is full. Please wait for existing deployments to complete."
            raise Refusal(Answer(429, {"message": message}, headers={"Retry-After": "60"}))
        answer = {"resource_uuid": uuid, "deployment_uuid": new_uuid()}
        if self._deployments.pending(application) and not force:
            return {"message": "Deployment already queued for this commit.", **answer}
        deployment = self._deployments.request(application, force=force)
        answer["deployment_uuid"] = deployment.uuid
        return {"message": f"Application {application.name} deployment queued.", **answer}

    def _deployment(self, uuid: str) -> Deployment:
        deployment = self._world.deployments.get(uuid)
        if deployment is None or deployment.application_uuid not in self._world.applications:
            raise not_found("Deployment not found.")
        return deployment


def as_json(deployment: Deployment, *, link: str, with_log: bool) -> dict[str, Any]:
    shown = {
        "id": deployment.id,
        "application_id": str(deployment.application_id),
        "deployment_uuid": deployment.uuid,
        "pull_request_id": 0,
        "force_rebuild": deployment.force,
        "restart_only": deployment.restart_only,
        "commit": "HEAD",
        "status": deployment.status,
        "is_webhook": False,
        "is_api": True,
        "application_name": deployment.application_name,
        "server_name": deployment.server_name,
        "deployment_url": link,
        "created_at": timestamp(deployment.created_at),
        "updated_at": timestamp(deployment.updated_at),
        "finished_at": timestamp(deployment.finished_at),
    }
    # Coolify keeps the log as text and does not parse it.
    return {**shown, "logs": json.dumps(deployment.log)} if with_log else shown
