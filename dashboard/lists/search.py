"""One search over everything: a bot number, slot name, meeting, correlation id or Coolify uuid."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from bots.models import Bot
from core.permissions import VIEW
from dashboard.bots.filters import bots_that_match, ranges_of
from dashboard.permissions import needs
from dashboard.slots.filters import slots_that_match
from slots.deployment import Deployment
from slots.models import Slot

SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Found:
    bots: list[Bot]
    slots: list[Slot]
    deployments: list[Deployment]

    def __bool__(self) -> bool:
        return bool(self.bots or self.slots or self.deployments)


@require_safe
@needs(VIEW)
def search(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()
    page = _exact(words)
    if page:
        return redirect(page)
    found = _found(words) if words else Found(bots=[], slots=[], deployments=[])
    return render(request, "dashboard/search.html", {"words": words, "found": found})


def _exact(words: str) -> str:
    """The page of what these words name, also of several bots; empty if that is unclear."""
    match ranges_of(words):
        case [(first, last)] if first == last:
            return _page_of_bot(Bot.objects.filter(pk=first))
        case [_, *_]:
            return f"{reverse('bots')}?{urlencode({'q': words})}"
    slot = Slot.objects.filter(name=words).first()
    if slot is not None:
        return reverse("slot", args=[slot.name])
    return _page_of_bot(Bot.objects.filter(correlation_id=words)) if words else ""


def _page_of_bot(bots: QuerySet[Bot]) -> str:
    found = list(bots.values_list("pk", flat=True)[:2])
    return reverse("bot", args=found) if len(found) == 1 else ""


def _found(words: str) -> Found:
    given = QueryDict(mutable=True)
    given["q"] = words
    return Found(
        bots=list(bots_that_match(given).defer("config").order_by("-pk")[:SHOWN]),
        slots=list(slots_that_match(given)[:SHOWN]),
        deployments=list(Deployment.objects.filter(deployment_uuid=words).order_by("-pk")[:SHOWN]),
    )
