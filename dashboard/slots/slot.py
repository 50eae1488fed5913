"""The page of one slot: its state and why, its history and its deployments."""

from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_safe

from coolify.client.errors import CoolifyError
from coolify.shared import shared_coolify
from core.permissions import VIEW
from dashboard.live import estimates, live_page, version_of
from dashboard.logs.kept import earlier_logs_of_slot, logs_of_slot, shown
from dashboard.permissions import needs
from dashboard.slots.state_machine import state_machine
from pool.waiting.slot_waits import slot_outlook
from servers.models import Server
from slots.deployment import WAITING, Deployment
from slots.description import wanted_description
from slots.models import Lease, Slot, SlotTransition
from slots.status import SlotStatus

# The newest; the page links to the rest.
SHOWN = 12
# Seconds. The uuid of the environment changes only if it is made anew in Coolify.
KNOWN_FOR = 600
ASK_AGAIN_AFTER = 60


@require_safe
@needs(VIEW)
def slot(request: HttpRequest, name: str) -> HttpResponse:
    found = get_object_or_404(Slot.objects.select_related("assigned_bot"), name=name)
    history = SlotTransition.objects.filter(slot=found).order_by("-pk")[:SHOWN]
    deployments = Deployment.objects.filter(slot=found).order_by("-pk")[:SHOWN]
    logs, earlier = logs_of_slot(found), earlier_logs_of_slot(found)
    lease = Lease.objects.filter(key=f"slot:{found.pk}").exclude(holder="")

    def live() -> dict[str, Any]:
        wanted = wanted_description(found)
        return {
            "slot": found,
            "outlook": slot_outlook(found),
            "description": wanted,
            "is_mirrored": wanted == found.description_written,
            "states": state_machine(found.status),
            "history": history,
            "deployments": deployments,
            "logs": shown(logs),
            "earlier_logs": earlier,
            "lease": lease.first(),
            "server": Server.objects.filter(uuid=found.server_uuid).first(),
        }

    return live_page(
        request,
        template="slots/slot.html",
        version=version_of(
            Slot.objects.filter(pk=found.pk),
            history,
            deployments,
            logs,
            earlier,
            lease,
            *_line(found),
        ),
        live=live,
        frame=lambda: {"slot": found},
    )


def _line(slot: Slot) -> list[Any]:
    """Rows that change what the slot waits for."""
    if slot.status == SlotStatus.IDLE:
        return []
    if slot.status != SlotStatus.DEPLOYING:
        return [estimates()]
    return [Deployment.objects.filter(status__in=WAITING).order_by("pk"), estimates()]


@require_safe
@needs(VIEW)
def in_coolify(request: HttpRequest, name: str) -> HttpResponse:
    """Redirect to the application in Coolify, whose URL contains the environment's uuid."""
    found = get_object_or_404(Slot, name=name)
    base = settings.COOLIFY_API_URL.removesuffix("/").removesuffix("/api/v1")
    project = settings.COOLIFY_PROJECT_UUID
    environment = _environment_uuid(project) if found.coolify_uuid and project else None
    if environment is None:
        return redirect(base)
    place = f"project/{project}/environment/{environment}"
    return redirect(f"{base}/{place}/application/{found.coolify_uuid}")


def _environment_uuid(project: str) -> str | None:
    """Remembered, and asked for once a minute at most: every viewer can follow the link."""
    uuid: str | None = cache.get("environment-uuid")
    if uuid is None and cache.add("environment-uuid-asked", True, ASK_AGAIN_AFTER):
        uuid = _ask_for_environment(project)
        if uuid is not None:
            cache.set("environment-uuid", uuid, KNOWN_FOR)
    return uuid


def _ask_for_environment(project: str) -> str | None:
    try:
        environments = shared_coolify().environments(project, spare=True)
    except CoolifyError:
        return None
    wanted = settings.COOLIFY_ENVIRONMENT_NAME
    return next((each.uuid for each in environments if each.name == wanted), None)
