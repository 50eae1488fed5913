"""The pool at a glance."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from botpool.pages.health import health
from botpool.pages.live import live_page, version_of
from botpool.pages.permissions import needs
from botpool.roles import VIEW
from botpool.sql import fetch_one
from bots.pages.new_bot import new_bot_fields
from coolify.budget_report import budget_report
from slots.deployment import ACTIVE
from slots.pages.attention import what_needs_attention
from slots.pages.cards import cards

# All that the page shows, in one round trip: xmin is PostgreSQL's mark of a row's last change.
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
