"""The page of one slot: its state and why, its history and its deployments."""

from typing import Any

from django.conf import settings
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
    project, wanted = settings.COOLIFY_PROJECT_UUID, settings.COOLIFY_ENVIRONMENT_NAME
    if not found.coolify_uuid or not project:
        return redirect(base)
    try:
        environments = {each.name: each.uuid for each in shared_coolify().environments(project)}
    except CoolifyError:
        environments = {}
    if wanted not in environments:
        return redirect(base)
    place = f"project/{project}/environment/{environments[wanted]}"
    return redirect(f"{base}/{place}/application/{found.coolify_uuid}")
