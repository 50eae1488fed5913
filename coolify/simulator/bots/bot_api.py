"""The HTTP calls that a simulated bot makes to Botpool."""

from dataclasses import dataclass, field
from typing import Any

import requests

from coolify.simulator.scheduler import Scheduler
from coolify.simulator.world.rows import Container

TIMEOUT = 10.0
# Botpool does not want this bot (any more). A retry would not change that.
UNWANTED = (401, 403, 404, 410)
# The call arrived and changed nothing: a restarted bot may report an old status.
HEARD = (400, 405, 409, 413, 422)


@dataclass(frozen=True)
class Reply:
    status: int | None
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def arrived(self) -> bool:
        return self.status is not None and (200 <= self.status < 300 or self.status in HEARD)

    @property
    def unwanted(self) -> bool:
        return self.status in UNWANTED

    @property
    def should_leave(self) -> bool:
        return bool(self.body.get("shouldLeave") or self.body.get("released"))


class BotApi:
    """Calls the address in a bot's `BOT_DATA` with that bot's token."""

    def __init__(self, *, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def fetch_config(self, container: Container) -> Reply:
        slot = container.environment.get("POOL_SLOT_UUID", container.application_uuid)
        return self._call(container, "GET", f"/slots/{slot}/bot")

    def report(self, container: Container, *, status: str, reason: str) -> Reply:
        body = {"status": status, "reason": reason}
        return self._call(container, "POST", f"/bots/{container.bot_id}/status", body)

    def heartbeat(self, container: Container) -> Reply:
        return self._call(container, "POST", f"/bots/{container.bot_id}/heartbeat", {})

    def _call(
        self, container: Container, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Reply:
        try:
            response = self._scheduler.session().request(
                method,
                f"{(container.api_url or '').rstrip('/')}{path}",
                json=body,
                headers={"Authorization": f"Bearer {container.token}"},
                timeout=TIMEOUT,
                allow_redirects=False,
            )
        except requests.RequestException:
            return Reply(None)
        return Reply(response.status_code, json_object(response))


def json_object(response: requests.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
