"""The overview page."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from coolify.budget.report import budget_report
from core.permissions import VIEW
from dashboard.bots.new_bot import new_bot_fields
from dashboard.live import live_page, version_of, version_of_pool
from dashboard.overview.attention import what_needs_attention
from dashboard.overview.cards import cards
from dashboard.overview.health import health
from dashboard.permissions import needs


@require_safe
@needs(VIEW)
def overview(request: HttpRequest) -> HttpResponse:
    parts = health(budget_report())
    version = version_of(version_of_pool(), parts)

    def live() -> dict[str, Any]:
        shown = cards()
        return {
            "cards": shown,
            "health": parts,
            "attention": what_needs_attention(cards=shown, health=parts),
        }

    return live_page(
        request,
        template="slots/overview.html",
        version=version,
        live=live,
        frame=lambda: {"fields": new_bot_fields()},
    )
