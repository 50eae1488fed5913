"""Coolify's notifications. They trigger an observation; their content is never trusted."""

import json
from hmac import compare_digest

from django.conf import settings
from django.http import HttpRequest
from ninja import Router, Status

from api.problems import DETAILS, Problem
from api.schemas.bodies import CANNOT_BE_STORED
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
        if told.get("event", "").startswith(CLEAN_UP):
            # At worst, this makes the next starts pull one after the other.
            doubt_images(told.get("server_uuid", ""))
    return Status(204, None)


def _read(body: bytes) -> dict[str, str]:
    """Its texts, without those that PostgreSQL could not look up."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    fields = told.items() if isinstance(told, dict) else []
    return {
        name: value
        for name, value in fields
        if isinstance(value, str) and not CANNOT_BE_STORED.search(value)
    }


def _is_about_us(told: dict[str, str]) -> bool:
    """Coolify sends the notifications of a whole team."""
    if told.get("server_uuid") in settings.COOLIFY_SERVER_UUIDS:
        return True
    application = told.get("application_uuid", "")
    return application != "" and Slot.objects.filter(coolify_uuid=application).exists()
