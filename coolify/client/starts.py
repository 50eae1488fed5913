"""Find out which starts really became a deployment.

Coolify answers a start with 200 and a uuid even if its queue is full and it created nothing. If a
deployment is already active, it answers without a uuid. So a StartAnswer is only a claim.
`Coolify.resolve_start` checks it: it finds the deployment with one or two calls, or raises
NotAccepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from coolify.client.parsing import Item, text
from coolify.client.resources import Application, Deployment

# created_at is exact to the second, and so is the header that shows Coolify's clock.
CLOCK_SLACK = timedelta(seconds=2)


@dataclass(frozen=True)
class StartAnswer:
    # It may not exist. None: Coolify skipped the start, because a deployment is active.
    deployment_uuid: str | None

    @classmethod
    def parse(cls, item: Item) -> StartAnswer:
        return cls(deployment_uuid=text(item, "deployment_uuid") or None)


def deployments_by_application(
    *, applications: Iterable[Application], deployments: Iterable[Deployment]
) -> dict[str, list[Deployment]]:
    """Group deployments by application uuid; old versions of Coolify only give its name."""
    uuid_of_name = _uuids_of_unique_names(list(applications))
    found: dict[str, list[Deployment]] = {}
    for deployment in deployments:
        name = deployment.application_name or ""
        uuid = deployment.application_uuid or uuid_of_name.get(name)
        if uuid:
            found.setdefault(uuid, []).append(deployment)
    return found


def newest_since(
    deployments: Iterable[Deployment], *, since: datetime, clock_offset: timedelta
) -> Deployment | None:
    """Return the deployment of a start requested at `since` (our clock), an active one first.

    An older deployment belongs to an earlier assignment and runs with its environment.
    """
    earliest = since + clock_offset - CLOCK_SLACK
    candidates = [
        (deployment.is_active, deployment.created_at, deployment)
        for deployment in deployments
        if deployment.created_at is not None and deployment.created_at >= earliest
    ]
    return max(candidates, key=lambda found: found[:2])[2] if candidates else None


def _uuids_of_unique_names(applications: list[Application]) -> dict[str, str]:
    # Names are not unique in Coolify: a name that two applications share identifies neither.
    uuids: dict[str, list[str]] = {}
    for application in applications:
        uuids.setdefault(application.name, []).append(application.uuid)
    return {name: found[0] for name, found in uuids.items() if len(found) == 1}
