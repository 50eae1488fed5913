"""All bots, newest first."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from botpool.pages.live import live_page, version_of
from botpool.pages.paging import older
from botpool.pages.permissions import needs
from botpool.roles import VIEW
from bots.pages.filters import CHOICES, bots_that_match


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
