"""All actions, by their name in the URL."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from core.permissions import OPERATE
from dashboard.actions.action import Action, run_action
from dashboard.actions.bots import BOT_ACTIONS
from dashboard.actions.clients import CLIENT_ACTIONS
from dashboard.actions.coolify import COOLIFY_ACTIONS
from dashboard.actions.images import IMAGE_ACTIONS
from dashboard.actions.notifications import NOTIFICATION_ACTIONS
from dashboard.actions.queue import QUEUE_ACTIONS
from dashboard.actions.repairs import REPAIR_ACTIONS
from dashboard.actions.servers import SERVER_ACTIONS
from dashboard.actions.slots import SLOT_ACTIONS
from dashboard.actions.webhooks import WEBHOOK_ACTIONS
from dashboard.actions.work import WORK_ACTIONS
from dashboard.permissions import needs

ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        *SLOT_ACTIONS,
        *BOT_ACTIONS,
        *QUEUE_ACTIONS,
        *WORK_ACTIONS,
        *REPAIR_ACTIONS,
        *SERVER_ACTIONS,
        *IMAGE_ACTIONS,
        *WEBHOOK_ACTIONS,
        *COOLIFY_ACTIONS,
        *CLIENT_ACTIONS,
        *NOTIFICATION_ACTIONS,
    )
}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def act(request: HttpRequest, name: str) -> HttpResponse:
    if name not in ACTIONS:
        raise Http404
    return run_action(request, ACTIONS[name])
