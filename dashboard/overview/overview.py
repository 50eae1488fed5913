"""The overview page."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from coolify.budget.report import budget_report
from core.permissions import VIEW
from dashboard.bots.new_bot import new_bot_fields, new_form_key
from dashboard.live import estimates, live_page, version_of, version_of_pool
from dashboard.notifications.records import failing_channels
from dashboard.overview.attention import (
    leases_in_vain,
    shown_findings,
    what_needs_attention,
)
from dashboard.overview.cards import cards
from dashboard.overview.headline import headline, waiting_lines
from dashboard.overview.health import health
from dashboard.permissions import needs


@require_safe
@needs(VIEW)
def overview(request: HttpRequest) -> HttpResponse:
    pool = version_of_pool()
    parts = health(budget_report(), may_miss_coolify=pool.may_miss_coolify)
    waits = estimates() if pool.has_waiters else None
    version = version_of(pool, parts, shown_findings(), waits, leases_in_vain(), failing_channels())

    def live() -> dict[str, Any]:
        shown = cards()
        lines = waiting_lines(shown)
        return {
            "headline": headline(shown, lines),
            "cards": shown,
            "health": parts,
            "attention": what_needs_attention(cards=shown, health=parts, lines=lines),
        }

    return live_page(
        request,
        template="slots/overview.html",
        version=version,
        live=live,
        frame=lambda: {"fields": new_bot_fields(), "form_key": new_form_key()},
    )
