"""Coolify's notifications. They trigger an observation; their content is never trusted."""

from hmac import compare_digest

from django.conf import settings
from django.http import HttpRequest
from ninja import Router, Status

from api.problems import DETAILS, Problem
from pool.controller.observe import observe_soon

router = Router(tags=["Coolify"])


@router.post(
    "/coolify/webhook/{secret}",
    auth=None,
    response={204: None},
    summary="Receive a notification from Coolify",
    operation_id="receiveCoolifyWebhook",
)
def coolify_webhook(request: HttpRequest, secret: str) -> Status[None]:
    """Triggers an observation of Coolify within a second. The body is not read."""
    if not compare_digest(secret.encode(), settings.COOLIFY_WEBHOOK_SECRET.encode()):
        raise Problem(404, DETAILS[404])
    observe_soon()
    return Status(204, None)
