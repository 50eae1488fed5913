"""Routes for the team's webhook notifications."""

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from coolify.simulator.fields import checked, json_body
from coolify.simulator.http.api import Route
from coolify.simulator.messages import Answer, Request, invalid, ok
from coolify.simulator.world.world import World

# The names of the fields, without their common ending, and the events that they switch on.
EVENTS = {
    "deployment_success": "deployment_success",
    "deployment_failure": "deployment_failed",
    "status_change": "status_changed",
    "restart_limit_reached": "restart_limit_reached",
    "docker_cleanup_success": "docker_cleanup_success",
    "docker_cleanup_failure": "docker_cleanup_failure",
    "server_disk_usage": "server_disk_usage",
    "server_reachable": "server_reachable",
    "server_unreachable": "server_unreachable",
}
ENDING = "_webhook_notifications"
FIELDS: dict[str, type] = {
    "webhook_enabled": bool,
    "webhook_url": str,
    **{f"{name}{ENDING}": bool for name in EVENTS},
}


class NotificationRoutes:
    def __init__(self, *, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        path = "/notifications/webhook"
        return [
            Route("GET", path, "read", self.show),
            Route("PATCH", path, "write", self.update),
        ]

    def show(self, request: Request) -> Answer:
        settings = self._world.settings
        shown: dict[str, Any] = {
            "webhook_enabled": settings.webhook_enabled and settings.webhook_url is not None,
            **{
                f"{name}{ENDING}": event in settings.webhook_events
                for name, event in EVENTS.items()
            },
        }
        return ok({**shown, "webhook_url": settings.webhook_url} if request.sees_secrets else shown)

    def update(self, request: Request) -> Answer:
        data = json_body(request)
        checked(data, allowed=FIELDS)
        if data.get("webhook_url"):
            self._check_address(data["webhook_url"])
        self._change(data)
        return self.show(request)

    def _check_address(self, url: str) -> None:
        host = urlsplit(url).hostname
        allowed = self._world.settings.webhook_allowed_hosts
        if host is None or (is_private(host) and host not in allowed):
            message = "The webhook url must not point to a private or reserved address."
            raise invalid({"webhook_url": [message]})

    def _change(self, data: dict[str, Any]) -> None:
        settings = self._world.settings
        settings.webhook_enabled = data.get("webhook_enabled", settings.webhook_enabled)
        settings.webhook_url = data.get("webhook_url", settings.webhook_url)
        wanted = {event: data.get(f"{name}{ENDING}") for name, event in EVENTS.items()}
        settings.webhook_events = [
            event
            for event, chosen in wanted.items()
            if (event in settings.webhook_events if chosen is None else chosen)
        ]


def is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:  # a name
        return host == "localhost" or host.endswith((".local", ".internal", ".localhost"))
