"""Which starts really became a deployment.

Coolify answers a start with 200 and a uuid even when its queue is full and nothing was
created, and without any uuid when a deployment is active already. So a StartAnswer is a claim.
Two ways to check it:

- cheaply, for all starts at once: `confirm_starts` against the next `Coolify.deployments()`,
  a listing that is read anyway. Found there: believed. Not found there: not refuted, since
  the listing shows only what is queued or in progress and a deployment may be over already.
- carefully, for one: `Coolify.resolve_start`, one or two calls, which finds the deployment
  or raises NotAccepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from coolify.client.parsing import Item
from coolify.client.resources import Application, Deployment

# Coolify writes created_at to the second, and its clock is read off a header to the second.
CLOCK_SLACK = timedelta(seconds=2)


@dataclass(frozen=True)
class StartAnswer:
    application_uuid: str
    asked_at: datetime
    # May be a phantom. None: Coolify skipped the start, because a deployment is active.
    deployment_uuid: str | None
    message: str = ""

    @classmethod
    def parse(cls, item: Item, *, application_uuid: str, asked_at: datetime) -> StartAnswer:
        deployment_uuid = item.get("deployment_uuid")
        return cls(
            application_uuid=application_uuid,
            asked_at=asked_at,
            deployment_uuid=str(deployment_uuid) if deployment_uuid else None,
            message=str(item.get("message") or ""),
        )

    @property
    def was_skipped(self) -> bool:
        return self.deployment_uuid is None


def confirm_starts(
    answers: Iterable[StartAnswer], *, listed: Iterable[Deployment]
) -> dict[str, Deployment]:
    """The believed deployments by application uuid. Who is missing needs `resolve_start`."""
    by_uuid = {deployment.uuid: deployment for deployment in listed}
    return {
        answer.application_uuid: by_uuid[answer.deployment_uuid]
        for answer in answers
        if answer.deployment_uuid in by_uuid
    }


def deployments_by_application(
    *, applications: Iterable[Application], deployments: Iterable[Deployment]
) -> dict[str, list[Deployment]]:
    """Deployments by application uuid: they carry only the application's number and name."""
    applications = list(applications)
    uuid_of_id = {str(a.id): a.uuid for a in applications if a.id is not None}
    uuid_of_name = _uuids_of_unique_names(applications)
    found: dict[str, list[Deployment]] = {}
    for deployment in deployments:
        uuid = uuid_of_id.get(deployment.application_id or "") or uuid_of_name.get(
            deployment.application_name or ""
        )
        if uuid:
            found.setdefault(uuid, []).append(deployment)
    return found


def newest_since(
    deployments: Iterable[Deployment], *, since: datetime, clock_offset: timedelta
) -> Deployment | None:
    """The deployment that a start asked for at `since` (our clock) led to, an active one first.

    One that is older belongs to an earlier assignment, and would run with its environment.
    """
    earliest = since + clock_offset - CLOCK_SLACK
    candidates = [
        (deployment.is_active, deployment.created_at, deployment)
        for deployment in deployments
        if deployment.created_at is not None and deployment.created_at >= earliest
    ]
    return max(candidates, key=lambda found: found[:2])[2] if candidates else None


def _uuids_of_unique_names(applications: list[Application]) -> dict[str, str]:
    # Names are not unique in Coolify: two applications of one name cannot be told apart by it.
    uuids: dict[str, list[str]] = {}
    for application in applications:
        uuids.setdefault(application.name, []).append(application.uuid)
    return {name: found[0] for name, found in uuids.items() if len(found) == 1}
