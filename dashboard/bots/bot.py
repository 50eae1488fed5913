"""The page of one bot, with its timeline."""

from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from bots.masking import masked_text
from bots.models import Bot, BotEvent
from bots.status import BotStatus
from core.clock import database_now
from core.permissions import VIEW
from dashboard.bots.timeline import SHOWN, phases_of, story_of
from dashboard.live import live_page, version_of
from dashboard.permissions import needs
from pool.waiting.position import place_in_line
from pool.waiting.reasons import why_waiting
from queues.models import QueueEntry
from slots.models import Deployment, Slot, SlotTransition


@require_safe
@needs(VIEW)
def bot(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Bot, pk=pk)
    events = BotEvent.objects.filter(bot=found).order_by("pk")[:SHOWN]
    deployments = Deployment.objects.filter(bot=found).order_by("pk")[:SHOWN]
    slot = Slot.objects.filter(assigned_bot=found)
    waits = found.status == BotStatus.QUEUED
    # The place of a waiting bot depends on the whole queue of its platform.
    line = QueueEntry.objects.filter(platform=found.platform).order_by("turn")[: 500 * waits]

    def live() -> dict[str, Any]:
        shown = list(events)
        return {
            "bot": found,
            "slot": slot.first(),
            "steps": story_of(shown, list(deployments), list(_transitions(found))),
            "phases": phases_of(found, shown, now=database_now()),
            "config": masked_text(found.config),
            "place": place_in_line(found) if waits else None,
            "reasons": why_waiting(found) if waits else [],
        }

    return live_page(
        request,
        template="bots/bot.html",
        version=version_of(
            Bot.objects.filter(pk=pk), events, deployments, slot, line, _transitions(found)
        ),
        live=live,
        frame=lambda: {"bot": found},
    )


def _transitions(bot: Bot) -> Any:
    """Transitions of its slots while it held them, and of the stop that followed."""
    mine = SlotTransition.objects.filter(bot=bot, slot_name=bot.slot_name).order_by("-pk")
    last = mine.values("epoch")[:1]
    after = Q(slot_name=bot.slot_name, epoch__in=last, from_status="stopping", to_status="idle")
    return SlotTransition.objects.filter(Q(bot=bot) | after).order_by("pk")[:SHOWN]
