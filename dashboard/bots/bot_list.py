"""The list of bots, newest first."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from core.permissions import VIEW
from dashboard.bots.filters import CHOICES, bots_that_match
from dashboard.live import live_page, version_of
from dashboard.paging import older
from dashboard.permissions import needs


@require_safe
@needs(VIEW)
def bot_list(request: HttpRequest) -> HttpResponse:
    page = older(bots_that_match(request.GET).defer("config"), request.GET)

    def live() -> dict[str, Any]:
        bots, before = page.shown()
        filters = {name: request.GET.get(name, "") for name in [*CHOICES, "q"]}
        return {"bots": bots, "before": before, "filters": filters}

    return live_page(
        request,
        template="bots/bots.html",
        version=version_of(page.rows),
        live=live,
        frame=lambda: {"choices": CHOICES, "given": request.GET},
    )
