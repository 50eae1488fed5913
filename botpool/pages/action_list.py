"""Every action there is, under its name in the address."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from botpool.pages.actions import Action, run_action
from botpool.pages.permissions import needs
from botpool.roles import OPERATE
from bots.pages.actions import BOT_ACTIONS
from queues.pages.actions import QUEUE_ACTIONS
from slots.pages.actions import SLOT_ACTIONS
from slots.pages.work_actions import WORK_ACTIONS

ACTIONS: dict[str, Action] = {
    action.name: action for action in (*SLOT_ACTIONS, *BOT_ACTIONS, *QUEUE_ACTIONS, *WORK_ACTIONS)
}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def act(request: HttpRequest, name: str) -> HttpResponse:
    if name not in ACTIONS:
        raise Http404
    return run_action(request, ACTIONS[name])
