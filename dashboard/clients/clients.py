"""The page of clients: their keys, bots, limits and shares."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from bots.models import ApiKey, Bot, Client
from bots.status import TERMINAL, BotStatus
from core.permissions import VIEW
from dashboard.live import live_page, version_of
from dashboard.permissions import needs

MOST_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class Row:
    client: Client
    keys: list[ApiKey]
    bots: int
    waiting: int


@require_safe
@needs(VIEW)
def clients(request: HttpRequest) -> HttpResponse:
    shown = Client.objects.order_by("name")[:MOST_SHOWN]
    keys = ApiKey.objects.filter(revoked_at=None).order_by("name")
    numbers = _numbers()
    return live_page(
        request,
        template="clients/clients.html",
        version=version_of(shown, keys.values_list("pk", "client_id"), sorted(numbers.items())),
        live=lambda: {"rows": _rows(shown, keys, numbers)},
    )


def _numbers() -> dict[int | None, tuple[int, int]]:
    """Bots of each client that have not ended, and how many of them wait."""
    live = Bot.objects.exclude(status__in=TERMINAL).filter(client__isnull=False)
    counted = (
        live.values("client_id")
        .order_by()
        .annotate(bots=Count("id"), waiting=Count("id", filter=Q(status=BotStatus.QUEUED)))
    )
    return {row["client_id"]: (row["bots"], row["waiting"]) for row in counted}


def _rows(shown: Any, keys: Any, numbers: dict[int | None, tuple[int, int]]) -> list[Row]:
    by_client: dict[int | None, list[ApiKey]] = {}
    for key in keys:
        by_client.setdefault(key.client_id, []).append(key)
    rows = []
    for client in shown:
        bots, waiting = numbers.get(client.pk, (0, 0))
        own = by_client.get(client.pk, [])
        rows.append(Row(client=client, keys=own, bots=bots, waiting=waiting))
    return rows
