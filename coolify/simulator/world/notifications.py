"""Coolify's webhook notifications."""

import logging
from functools import partial
from typing import Any

import requests

from coolify.simulator.scheduler import Scheduler
from coolify.simulator.world.rows import Application, Deployment, Environment, Server
from coolify.simulator.world.world import World

logger = logging.getLogger(__name__)

MESSAGES = {
    "deployment_success": "New version successfully deployed",
    "deployment_failed": "Deployment failed",
    "restart_limit_reached": "Application reached its restart limit and was stopped",
    "server_unreachable": "Server is unreachable",
    "server_reachable": "Server is reachable again",
    "docker_cleanup_success": "Docker cleanup job succeeded",
}


def link_to(deployment: Deployment, *, environment: Environment) -> str:
    place = f"/project/{environment.project_uuid}/environment/{environment.uuid}"
    return f"{place}/application/{deployment.application_uuid}/deployment/{deployment.uuid}"


class Webhooks:
    """Sends notifications as unsigned JSON to one address, without retries."""

    def __init__(self, *, world: World, scheduler: Scheduler) -> None:
        self._world = world
        self._scheduler = scheduler

    def about_deployment(self, *, deployment: Deployment, succeeded: bool) -> None:
        self._send(
            "deployment_success" if succeeded else "deployment_failed",
            success=succeeded,
            application_name=deployment.application_name,
            application_uuid=deployment.application_uuid,
            deployment_uuid=deployment.uuid,
            **self._place(deployment),
        )

    def _place(self, deployment: Deployment) -> dict[str, str]:
        application = self._world.applications.get(deployment.application_uuid)
        if application is None:
            return {}
        environment = self._world.environments[application.environment_id]
        return {
            "deployment_url": link_to(deployment, environment=environment),
            "project": self._world.projects[environment.project_uuid].name,
            "environment": environment.name,
        }

    def about_cleanup(self, server: Server) -> None:
        self._send(
            "docker_cleanup_success",
            success=True,
            server_name=server.name,
            server_uuid=server.uuid,
        )

    def about_restarts(self, application: Application) -> None:
        self._send(
            "restart_limit_reached",
            success=False,
            application_name=application.name,
            application_uuid=application.uuid,
            restart_count=application.restart_count,
        )

    def about_server(self, server: Server) -> None:
        self._send(
            "server_reachable" if server.reachable else "server_unreachable",
            success=server.reachable,
            server_name=server.name,
            server_uuid=server.uuid,
        )

    def _send(self, event: str, **facts: Any) -> None:
        settings = self._world.settings
        wanted = settings.webhook_enabled and event in settings.webhook_events
        if settings.webhook_url and wanted:
            payload = {"event": event, "message": MESSAGES[event], **facts}
            self._scheduler.outbound(partial(self._post, settings.webhook_url, payload))

    def _post(self, url: str, payload: dict[str, Any]) -> None:
        try:
            self._scheduler.session().post(url, json=payload, timeout=5)
        except requests.RequestException as error:
            logger.info("Could not deliver the webhook %s: %s", payload["event"], error)
