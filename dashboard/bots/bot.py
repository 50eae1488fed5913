"""The page of one bot, with its timeline."""

from datetime import timedelta
from typing import Any

from django.core.cache import cache
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from bots.masking import masked_text
from bots.models import Bot, BotEvent
from bots.status import BotStatus
from core.clock import database_now
from core.permissions import VIEW
from dashboard.bots.timeline import SHOWN, story_of
from dashboard.bots.waterfall import waterfall_of
from dashboard.live import estimates, live_page, version_of
from dashboard.logs.kept import logs_of_bot, shown, why_no_log
from dashboard.permissions import needs
from pool.waiting.measurements import typical_steps
from pool.waiting.reasons import why_waiting
from pool.waiting.waiting_for import waiting_for
from queues.models import QueueEntry
from slots.deployment import WAITING
from slots.models import Deployment, Slot, SlotTransition


@require_safe
@needs(VIEW)
def bot(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Bot, pk=pk)
    events = BotEvent.objects.filter(bot=found).order_by("pk")[:SHOWN]
    deployments = Deployment.objects.filter(bot=found).order_by("pk")[:SHOWN]
    slot, logs = Slot.objects.filter(assigned_bot=found), logs_of_bot(found)

    def live() -> dict[str, Any]:
        moves, starts = list(events), list(deployments)
        return {
            "bot": found,
            "slot": slot.first(),
            "steps": story_of(moves, starts, list(_transitions(found))),
            "waterfall": waterfall_of(
                found, moves, starts, typical=_typical(found.platform), now=database_now()
            ),
            "config": masked_text(found.config),
            "logs": shown(logs),
            "no_log": why_no_log(found),
            "waiting": waiting_for(found),
            "reasons": why_waiting(found) if found.status == BotStatus.QUEUED else [],
        }

    return live_page(
        request,
        template="bots/bot.html",
        version=version_of(
            Bot.objects.filter(pk=pk),
            events,
            deployments,
            slot,
            logs,
            _transitions(found),
            *_what_it_waits_for(found),
        ),
        live=live,
        frame=lambda: {"bot": found},
    )


def _typical(platform: str) -> dict[str, timedelta]:
    """Read once a minute, however many pages are open."""
    key = f"typical-steps:{platform}"
    return cache.get_or_set(key, lambda: typical_steps(platform), 60) or {}


def _what_it_waits_for(bot: Bot) -> list[Any]:
    """Rows that change the place of a waiting bot: those of the whole line."""
    if bot.status == BotStatus.QUEUED:
        line = QueueEntry.objects.filter(platform=bot.platform)
        return [line.order_by("turn")[:500], estimates()]
    if bot.status == BotStatus.DEPLOYING:
        return [Deployment.objects.filter(status__in=WAITING).order_by("pk"), estimates()]
    return [] if bot.is_terminal or bot.status == BotStatus.IN_CALL else [estimates()]


def _transitions(bot: Bot) -> Any:
    """Transitions of its slots while it held them, and of the stop that followed."""
    mine = SlotTransition.objects.filter(bot=bot, slot_name=bot.slot_name).order_by("-pk")
    last = mine.values("epoch")[:1]
    after = Q(slot_name=bot.slot_name, epoch__in=last, from_status="stopping", to_status="idle")
    return SlotTransition.objects.filter(Q(bot=bot) | after).order_by("pk")[:SHOWN]
