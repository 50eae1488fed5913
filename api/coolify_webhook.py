"""Coolify's notifications. They trigger an observation; their content is never trusted."""

import json
from hmac import compare_digest
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Router, Status

from api.problems import DETAILS, Problem
from pool.controller.images import doubt_images
from pool.controller.observe import observe_soon
from slots.models import Slot

router = Router(tags=["Coolify"])

# Events of a clean-up on a server: images may be gone.
CLEAN_UP = "docker_cleanup"


@router.post(
    "/coolify/webhook/{secret}",
    auth=None,
    response={204: None},
    summary="Receive a notification from Coolify",
    operation_id="receiveCoolifyWebhook",
)
def coolify_webhook(request: HttpRequest, secret: str) -> Status[None]:
    """Triggers an observation of Coolify, at most one in 5 seconds. Of the body, only uuids and the
    kind of event are read: what is not about Botpool's applications and servers changes nothing."""
    if not compare_digest(secret.encode(), settings.COOLIFY_WEBHOOK_SECRET.encode()):
        raise Problem(404, DETAILS[404])
    told = _read(request.body)
    if _is_about_us(told):
        observe_soon()
        if str(told.get("event", "")).startswith(CLEAN_UP):
            # At worst, this makes the next starts pull one after the other.
            doubt_images(str(told.get("server_uuid", "")))
    return Status(204, None)


def _read(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _is_about_us(told: dict[str, Any]) -> bool:
    """Coolify sends the notifications of a whole team."""
    if told.get("server_uuid") in settings.COOLIFY_SERVER_UUIDS:
        return True
    application = told.get("application_uuid")
    is_text = isinstance(application, str) and application != ""
    return is_text and Slot.objects.filter(coolify_uuid=application).exists()
