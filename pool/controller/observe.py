"""Observation: what Coolify says about all applications and deployments, in two calls.

Observation is separate from action: it stores what has changed and wakes the slots concerned, and
advance.py decides. It has its own share of the budget.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Least, Now

from coolify.client import Coolify
from coolify.client.errors import BudgetExhausted, CoolifyError
from coolify.client.resources import Application
from coolify.client.resources import Deployment as CoolifyDeployment
from coolify.client.resources import DeploymentStatus as CoolifyStatus
from coolify.client.starts import deployments_by_application
from coolify.shared import shared_coolify
from core.clock import database_now
from core.jobs.jobs import wake
from pool.controller.belief.answers import (
    known_applications,
    review_list,
    shows_ours,
    status_is_current,
)
from pool.controller.container_status import container_status
from pool.controller.containers.changes import nothing_has_changed
from pool.controller.containers.ends import a_start_has_ended
from pool.controller.observation_times import observation_is_due
from pool.servers.states import refresh_servers
from servers.reports import note_reachability
from slots.deployment import Deployment, DeploymentStatus, Watch
from slots.locks import wake_slots
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

JOB = "observe"
OUT_OF_TURN = timedelta(seconds=5)


@dataclass(frozen=True)
class Snapshot:
    """What one observation returned. `began_at` is the time before its first call."""

    began_at: datetime
    applications: dict[str, Application]
    active_by_application: dict[str, list[CoolifyDeployment]]
    active: dict[str, CoolifyDeployment]
    # The slots' names by the applications that they had before the first call.
    known: dict[str, str] = field(default_factory=dict)
    # Too much is missing: what is not listed may exist all the same.
    is_doubted: bool = False

    def is_deploying(self, coolify_uuid: str) -> bool:
        return bool(self.active_by_application.get(coolify_uuid))


# --- When -------------------------------------------------------------------------------------


def observe_if_due() -> None:
    """Periodic work: observe Coolify if that is due or was asked for."""
    watch, now = Watch.objects.first(), database_now()
    last = watch.looked_at if watch else None
    wanted_at = watch.wanted_at if watch else None
    is_wanted = wanted_at is not None and wanted_at <= now and (last is None or wanted_at > last)
    coolify = shared_coolify()
    if (
        is_wanted
        or (_is_due(watch, now) and not nothing_has_changed(coolify, now=now))
        or a_start_has_ended(coolify, now=now, looked_at=last)
    ):
        observe(coolify)


def _is_due(watch: Watch | None, now: datetime) -> bool:
    asked = (watch.looked_at, watch.resources_asked_at) if watch else ()
    return observation_is_due(now=now, last=max(filter(None, asked), default=None))


def observe_soon() -> None:
    """Something has changed in Coolify: observe, however recent the last observation is, but at
    most once in OUT_OF_TURN. What comes in between waits for the end of that time, together."""
    Watch.objects.get_or_create(pk=True)
    rested = Q(wanted_at__isnull=True) | Q(wanted_at__lte=Now() - OUT_OF_TURN)
    if Watch.objects.filter(rested).update(wanted_at=Now()):
        wake([JOB])
    else:
        Watch.objects.filter(wanted_at__lte=Now()).update(wanted_at=F("wanted_at") + OUT_OF_TURN)


def last_observation() -> datetime | None:
    """When the last observation that succeeded began."""
    watch = Watch.objects.first()
    return watch.observed_at if watch else None


# --- Observing --------------------------------------------------------------------------------


def observe(coolify: Coolify) -> Snapshot | None:
    """Observe now and store the snapshot. None if Coolify could not be read.

    A list that lacks too much and shows none of our applications is not stored: it may be the list
    of another team. If it shows some, those are stored, and the others as missing.
    """
    try:
        snapshot = take_snapshot(coolify)
    except BudgetExhausted as error:
        logger.debug("Coolify was not observed: %s", error)
        return None
    except CoolifyError as error:
        _note_failure(error)
        return None
    doubt = review_list(known=snapshot.known, listed=snapshot.applications)
    if doubt is None or shows_ours(snapshot.known, snapshot.applications):
        _store(snapshot)
    else:
        _note_failure(doubt.error)
    return snapshot


def take_snapshot(coolify: Coolify) -> Snapshot:
    """Deployments first: one that ends between the two calls still counts as active."""
    began_at = database_now()
    known = known_applications()
    deployments = coolify.deployments(observing=True)
    applications = coolify.applications(observing=True)
    return Snapshot(
        began_at=began_at,
        applications={app.uuid: app for app in applications},
        active_by_application=deployments_by_application(
            applications=applications, deployments=[d for d in deployments if d.is_active]
        ),
        active={d.uuid: d for d in deployments if d.is_active},
        known=known,
    )


def _note_failure(error: CoolifyError) -> None:
    logger.warning("Coolify could not be observed: %s", error)
    Watch.objects.get_or_create(pk=True)
    Watch.objects.update(
        looked_at=Now(), failing_since=Coalesce("failing_since", Now()), error=str(error)
    )


# --- Storing it -------------------------------------------------------------------------------


def _store(snapshot: Snapshot) -> None:
    """Store the slots' rows first: readers take them to be as fresh as the stored time.

    Observer and reconciler may store at the same time. The newest snapshot announces itself, and
    from then on an older one writes nothing.
    """
    at = snapshot.began_at
    Watch.objects.get_or_create(pk=True)
    Watch.objects.filter(Q(looked_at__isnull=True) | Q(looked_at__lt=at)).update(looked_at=at)
    changed = [slot.pk for slot in _slots() if _store_on_slot(slot, snapshot)]
    reachability_changed = False
    with transaction.atomic():
        if _is_newest(snapshot):
            _store_on_deployments(snapshot)
            Watch.objects.update(observed_at=at, failing_since=None, error="")
            reachability_changed = note_reachability(_reachable_servers(snapshot), at=at)
    if reachability_changed:
        refresh_servers()
    wake_slots({*changed, *_slots_that_wait_for_it()})


def _is_newest(snapshot: Snapshot) -> bool:
    """If so, no newer one announces itself until the caller's transaction ends."""
    announced = Watch.objects.select_for_update().filter(looked_at=snapshot.began_at)
    return announced.exists()


def _slots() -> Iterable[Slot]:
    """With the last deployment of each: one index lookup per slot, however long its history."""
    newest = Deployment.objects.filter(slot=OuterRef("pk"), start_asked_at__isnull=False)
    last = Subquery(newest.order_by("-id").values("status")[:1])
    return Slot.objects.exclude(coolify_uuid="").annotate(last_deployment=last)


def _store_on_slot(slot: Slot, snapshot: Snapshot) -> bool:
    """Write only what has changed: a write locks the row, and claims skip a locked idle slot."""
    seen = {name: value for name, value in _seen(slot, snapshot) if getattr(slot, name) != value}
    if not seen:
        return False
    if "container_status" in seen:
        seen["container_seen_at"] = snapshot.began_at
    same = Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid)
    with transaction.atomic():
        return _is_newest(snapshot) and bool(same.update(**seen))


def _seen(slot: Slot, snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    application = snapshot.applications.get(slot.coolify_uuid)
    if application is None:
        # The list cannot show what was made after it was asked for.
        if slot.coolify_uuid in snapshot.known:
            yield "application_missing", True
        return
    yield "application_missing", False
    yield "server_unreachable", not status_is_current(application)
    yield "application_state", application.status.state[:30]
    last = getattr(slot, "last_deployment", None)
    status = container_status(
        application,
        deployment_active=snapshot.is_deploying(slot.coolify_uuid),
        last_deployment_failed=last == DeploymentStatus.FAILED,
        ever_deployed=last is not None,
    )
    if status is not None:
        yield "container_status", status


def _store_on_deployments(snapshot: Snapshot) -> None:
    building = [d.uuid for d in snapshot.active.values() if d.status == CoolifyStatus.IN_PROGRESS]
    queued = [uuid for uuid in snapshot.active if uuid not in building]
    under_way = Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS)
    # Its deadline counts from here: the wait in Coolify's queue is not its fault.
    under_way.filter(deployment_uuid__in=building, building_since__isnull=True).update(
        building_since=Now(),
        queued_in_coolify=False,
        deadline=Now() + settings.DEPLOY_TIMEOUT,
        reason="Deployment in progress",
    )
    # Deployments ahead of it may hang, so it gets the same time again. No more than that: Coolify
    # sometimes forgets a deployment in its queue.
    under_way.filter(deployment_uuid__in=queued, start_asked_at__isnull=False).filter(
        Q(deadline__lt=Now() + settings.DEPLOY_TIMEOUT / 2) | Q(queued_in_coolify=False)
    ).update(
        queued_in_coolify=True,
        deadline=Least(
            Now() + settings.DEPLOY_TIMEOUT, F("start_asked_at") + 2 * settings.DEPLOY_TIMEOUT
        ),
        reason="Waiting in Coolify's own queue",
    )
    _reopen(snapshot)


def _reopen(snapshot: Snapshot) -> None:
    """Deployments of slots that are to be stopped, which counted as ended and go on in Coolify. It
    may have said that it has no such deployment, or their bot called before their end. The stop
    has to cancel them: a slot is not free while one is under way, and some hang for ever."""
    leaving = Slot.objects.filter(
        status__in=(SlotStatus.STOPPING, SlotStatus.ERROR),
        coolify_uuid__in=list(snapshot.active_by_application),
    )
    # Mostly none. A list of ids, so that the history of all other slots is not searched.
    if slots := list(leaving.values_list("pk", flat=True)):
        Deployment.objects.filter(
            slot_id__in=slots,
            deployment_uuid__in=list(snapshot.active),
            coolify_ended_at__lt=snapshot.began_at,
        ).update(coolify_ended_at=None)


def _reachable_servers(snapshot: Snapshot) -> dict[str, bool]:
    """Servers that Coolify can reach, or not, as each of their applications says."""
    return {
        app.server_uuid: app.server_reachable
        for app in snapshot.applications.values()
        if app.server_uuid and app.server_reachable is not None
    }


def _slots_that_wait_for_it() -> Iterable[int]:
    """To be woken even if nothing changed: their start or stop may be over, or late."""
    in_progress = Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS)
    yield from in_progress.values_list("slot_id", flat=True)
    stopping = Slot.objects.filter(status=SlotStatus.STOPPING, stop_asked_at__isnull=False)
    yield from stopping.values_list("pk", flat=True)
