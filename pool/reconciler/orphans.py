"""Applications with a name of ours that belong to no slot."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings

from bots.models import Bot
from bots.status import TERMINAL, Platform
from coolify.client.resources import Application
from pool.controller.observe import Look
from pool.reconciler.candidate import Sighting
from slots.finding import FindingKind
from slots.models import Slot, SlotTransition

KINDS = (FindingKind.APPLICATION_UNKNOWN,)
DELETION_TAKES = timedelta(minutes=10)


def unknown_applications(look: Look) -> Iterator[Sighting]:
    """The slots are read after the look: whoever made an application meanwhile is among them."""
    slots = list(Slot.objects.all())
    known = {slot.coolify_uuid for slot in slots}
    being_made = {slot.name for slot in slots if slot.application_asked_at is not None}
    environments = _environments_of_ours(look, known)
    for application in look.applications.values():
        if application.uuid in known or application.name in being_made:
            continue
        ours = has_our_name(application) and _may_be_ours(application, environments)
        if ours and not _was_ours_a_moment_ago(application, look):
            yield _unknown(application)


def _was_ours_a_moment_ago(application: Application, look: Look) -> bool:
    """Coolify lists what we deleted until its job has run."""
    recent = look.began_at - DELETION_TAKES
    ours = SlotTransition.objects.filter(coolify_uuid=application.uuid, at__gt=recent)
    return ours.filter(reason__startswith="Application deleted").exists()


def has_our_name(application: Application) -> bool:
    """Exactly a slot's name: another prefix may begin like ours."""
    prefix, platforms = re.escape(settings.SLOT_NAME_PREFIX), "|".join(Platform.values)
    return bool(re.fullmatch(rf"{prefix}-({platforms})-[0-9]{{3,}}", application.name))


def _environments_of_ours(look: Look, known: set[str]) -> set[int]:
    ours = (look.applications[uuid] for uuid in known if uuid in look.applications)
    return {app.environment_id for app in ours if app.environment_id is not None}


def _may_be_ours(application: Application, environments: set[int]) -> bool:
    environment = application.environment_id
    return environment is None or not environments or environment in environments


def _unknown(application: Application) -> Sighting:
    return Sighting(
        kind=FindingKind.APPLICATION_UNKNOWN,
        application=application.uuid,
        name=application.name,
        reason=f"Application {application.uuid} has a slot's name and belongs to no slot",
        evidence=_evidence(application),
        decision="Reported; cleanup_slots removes it once it has lasted long enough",
        lasting=settings.ORPHAN_KEPT_FOR,
        looks=2,
    )


def _evidence(application: Application) -> dict[str, Any]:
    last = Bot.objects.filter(coolify_service_uuid=application.uuid).order_by("-id").first()
    return {
        "status": str(application.status),
        "environment": application.environment_id,
        "lastBot": last.pk if last else None,
        "lastBotLives": last is not None and last.status not in TERMINAL,
    }
