"""One look at Coolify: two calls, whatever the number of slots."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import OuterRef, Subquery

from coolify.client import Coolify
from coolify.client.resources import Application
from coolify.client.resources import Deployment as CoolifyDeployment
from coolify.client.starts import deployments_by_application
from core.clock import database_now
from pool.controller.container_status import container_status
from slots.deployment import Deployment, DeploymentStatus
from slots.models import Slot
from slots.status import ContainerStatus

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Look:
    """What Coolify said at one moment. `began_at` is from before the question was asked."""

    began_at: datetime
    applications: dict[str, Application]
    active_by_application: dict[str, list[CoolifyDeployment]]
    active: dict[str, CoolifyDeployment]

    def is_deploying(self, coolify_uuid: str) -> bool:
        return bool(self.active_by_application.get(coolify_uuid))

    def named(self, name: str) -> list[Application]:
        return [app for app in self.applications.values() if app.name == name]


def look_at_coolify(coolify: Coolify) -> Look:
    """Ask Coolify how all applications and deployments are, and note it on the slots.

    Deployments are asked first: one that ends in between is then missing from neither list.
    """
    began_at = database_now()
    deployments = coolify.deployments()
    applications = coolify.applications()
    look = Look(
        began_at=began_at,
        applications={app.uuid: app for app in applications},
        active_by_application=deployments_by_application(
            applications=applications, deployments=[d for d in deployments if d.is_active]
        ),
        active={d.uuid: d for d in deployments if d.is_active},
    )
    _note_container_statuses(look)
    return look


_NOTE = """
UPDATE slots_slot SET container_status = seen.status, container_seen_at = %(at)s
FROM unnest(%(ids)s::bigint[], %(uuids)s::text[], %(statuses)s::text[]) AS seen (id, uuid, status)
WHERE slots_slot.id = seen.id AND slots_slot.coolify_uuid = seen.uuid
    AND slots_slot.id IN (
        SELECT id FROM slots_slot WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE SKIP LOCKED
    )
"""


def _note_container_statuses(look: Look) -> None:
    """A slot that is being changed at this moment is passed over: the next look comes soon."""
    slots = [slot for slot in Slot.objects.exclude(coolify_uuid="") if _is_seen(slot, look)]
    last = _last_deployments(slots)
    seen = [(slot, _status_of(slot, look, last.get(slot.pk))) for slot in slots]
    known = [(slot, status) for slot, status in seen if status is not None]
    with connection.cursor() as cursor:
        cursor.execute(
            _NOTE,
            {
                "at": look.began_at,
                "ids": [slot.pk for slot, _ in known],
                "uuids": [slot.coolify_uuid for slot, _ in known],
                "statuses": [status.value for _, status in known],
            },
        )


def _is_seen(slot: Slot, look: Look) -> bool:
    return slot.coolify_uuid in look.applications


def _status_of(slot: Slot, look: Look, last: str | None) -> ContainerStatus | None:
    return container_status(
        look.applications[slot.coolify_uuid],
        deployment_active=look.is_deploying(slot.coolify_uuid),
        last_deployment_failed=last == DeploymentStatus.FAILED,
        ever_deployed=last is not None,
    )


def _last_deployments(slots: Iterable[Slot]) -> dict[int, str]:
    """One step into the index for each slot, however many deployments it has had."""
    newest = Deployment.objects.filter(slot=OuterRef("pk"), start_asked_at__isnull=False)
    with_last = Slot.objects.filter(pk__in=[slot.pk for slot in slots]).annotate(
        last=Subquery(newest.order_by("-id").values("status")[:1])
    )
    return {pk: last for pk, last in with_last.values_list("pk", "last") if last is not None}
