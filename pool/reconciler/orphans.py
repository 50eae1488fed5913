"""Orphans: applications that have a slot's name and belong to no slot."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from bots.models import Bot
from bots.status import TERMINAL, Platform
from coolify.client.resources import Application
from pool.controller.observe import Snapshot
from pool.controller.prepulls.steps import application_name
from pool.reconciler.candidate import Candidate
from slots.finding import FindingKind
from slots.images import Prepull
from slots.models import Slot, SlotTransition

KINDS = (FindingKind.APPLICATION_UNKNOWN,)
DELETION_TAKES = timedelta(minutes=10)


def unknown_applications(snapshot: Snapshot) -> Iterator[Candidate]:
    """Reads the slots after the snapshot: an application made in between is then known."""
    slots = list(Slot.objects.all())
    known = {slot.coolify_uuid for slot in slots}
    being_made = {slot.name for slot in slots if slot.application_asked_at is not None}
    being_made |= names_of_prepulls()
    environments = _environments_of_ours(snapshot, known)
    for application in snapshot.applications.values():
        if application.uuid in known or application.name in being_made:
            continue
        ours = has_our_name(application) and _may_be_ours(application, environments)
        if ours and not _was_ours_a_moment_ago(application, snapshot):
            yield _unknown(application)


def _was_ours_a_moment_ago(application: Application, snapshot: Snapshot) -> bool:
    """Coolify still lists a deleted application until its own job has run."""
    recent = snapshot.began_at - DELETION_TAKES
    ours = SlotTransition.objects.filter(coolify_uuid=application.uuid, at__gt=recent)
    return ours.filter(kind=SlotTransition.Kind.APPLICATION_DELETED).exists()


def has_our_name(application: Application) -> bool:
    """An exact match: the prefix of another Botpool may begin like ours. `warmer` is of a pre-pull
    whose application could not be deleted."""
    prefix, platforms = re.escape(settings.SLOT_NAME_PREFIX), "|".join(Platform.values)
    number = rf"({platforms})-[0-9]{{3,}}|warmer-[0-9]+"
    return bool(re.fullmatch(rf"{prefix}-({number})", application.name))


def names_of_prepulls() -> set[str]:
    """Of applications that pre-pulls have, or are about to delete."""
    left = Q(application_asked_at__isnull=False) | ~Q(coolify_uuid="")
    recent = Q(ended_at__gt=Now() - DELETION_TAKES)
    return {application_name(each) for each in Prepull.objects.filter(left | recent)}


def _environments_of_ours(snapshot: Snapshot, known: set[str]) -> set[int]:
    ours = (snapshot.applications[uuid] for uuid in known if uuid in snapshot.applications)
    return {app.environment_id for app in ours if app.environment_id is not None}


def _may_be_ours(application: Application, environments: set[int]) -> bool:
    environment = application.environment_id
    return environment is None or not environments or environment in environments


def _unknown(application: Application) -> Candidate:
    return Candidate(
        kind=FindingKind.APPLICATION_UNKNOWN,
        application=application.uuid,
        name=application.name,
        reason=f"Application {application.uuid} has a slot's name but belongs to no slot",
        evidence=_evidence(application),
        decision="Report it; cleanup_slots deletes it once it has lasted long enough",
        lasting=settings.ORPHAN_KEPT_FOR,
        times=2,
    )


def _evidence(application: Application) -> dict[str, Any]:
    last = Bot.objects.filter(coolify_service_uuid=application.uuid).order_by("-id").first()
    return {
        "status": str(application.status),
        "environment": application.environment_id,
        "lastBot": last.pk if last else None,
        "lastBotLives": last is not None and last.status not in TERMINAL,
    }
