"""The overview page."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from coolify.budget.report import budget_report
from core.permissions import VIEW
from core.sql import fetch_one
from dashboard.bots.new_bot import new_bot_fields
from dashboard.live import live_page, version_of
from dashboard.overview.attention import what_needs_attention
from dashboard.overview.cards import cards
from dashboard.overview.health import health
from dashboard.permissions import needs
from slots.deployment import ACTIVE

# Everything the page shows, in one round trip. xmin changes with every update of a row.
_VERSION = """
SELECT
    (SELECT md5(string_agg(id || ':' || xmin, ',' ORDER BY id)) FROM slots_slot),
    (SELECT md5(string_agg(platform || ':' || xmin, ',' ORDER BY platform)) FROM slots_pool),
    (SELECT count(*) FROM slots_pool WHERE paused_until > clock_timestamp()),
    (SELECT md5(string_agg(id || ':' || xmin, ',' ORDER BY id)) FROM queues_queueentry),
    (SELECT count(*) FROM slots_deployment WHERE status = ANY(%(active)s)),
    (SELECT max(minute) FROM botpool_poolsample)
"""


@require_safe
@needs(VIEW)
def overview(request: HttpRequest) -> HttpResponse:
    parts = health(budget_report())
    version = version_of(fetch_one(_VERSION, {"active": list(ACTIVE)}), parts)

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
