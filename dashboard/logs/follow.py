"""Pages that follow the log of a running container."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from bots.models import Bot
from core.permissions import VIEW
from dashboard.live import live_page, version_of
from dashboard.logs.kept import as_file
from dashboard.permissions import needs
from pool.controller.logs.follow import follow_log, pause_between_readings
from slots.logs import LogReading, lines_of
from slots.models import Slot


@require_safe
@needs(VIEW)
def slot_log(request: HttpRequest, name: str) -> HttpResponse:
    slot = get_object_or_404(Slot.objects.select_related("assigned_bot"), name=name)
    reading = follow_log(slot)
    if "download" in request.GET:
        return as_file(reading.text, f"{slot.name}.log")
    return _page(request, reading, slot=slot, bot=slot.assigned_bot)


@require_safe
@needs(VIEW)
def bot_log(request: HttpRequest, pk: int) -> HttpResponse:
    """Once the bot has left its slot, the page says so and asks no more."""
    bot = get_object_or_404(Bot, pk=pk)
    slot = Slot.objects.select_related("assigned_bot").filter(assigned_bot=bot).first()
    reading = follow_log(slot) if slot else LogReading(problem=_where_it_is(bot), text="")
    return _page(request, reading, slot=slot, bot=bot)


def _where_it_is(bot: Bot) -> str:
    if not bot.is_terminal:
        return "The bot has no slot yet, so no container runs."
    return "The bot has ended, and its container is gone."


def _page(
    request: HttpRequest, reading: LogReading, *, slot: Slot | None, bot: Bot | None
) -> HttpResponse:
    about = {"slot": slot, "bot": bot}

    def live() -> dict[str, Any]:
        return {
            **about,
            "reading": reading,
            "lines": list(lines_of(reading.text)),
            "pause": pause_between_readings() if slot else None,
        }

    return live_page(
        request,
        template="logs/follow.html",
        version=version_of(LogReading.objects.filter(pk=reading.pk), reading.problem, slot),
        live=live,
        frame=lambda: about,
        settled=slot is None and bot is not None and bot.is_terminal,
    )
