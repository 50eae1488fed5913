"""Queue positions, as the API shows them."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from api.schemas.pool import QueueOut, Waiter
from bots.models import Bot
from bots.status import BotStatus, Platform
from pool.waiting.position import Place, place_in_line, places_in_line
from queues.models import QueueEntry


def find_place(bot: Bot) -> Place | None:
    """The place of a queued bot; None for any other. Rereads a bot that has left the queue."""
    if bot.status != BotStatus.QUEUED:
        return None
    place = place_in_line(bot)
    if place is None:
        bot.refresh_from_db()
    return place


def queue_fields(place: Place | None) -> dict[str, Any]:
    """Position and estimate of a queued bot; empty for any other."""
    if place is None:
        return {}
    wait = milliseconds(place.estimated_wait)
    return {"queue_position": place.position, "estimated_wait_ms": wait}


def list_waiters(
    *, platform: Platform | None, limit: int, only: QuerySet[Bot] | None = None
) -> QueueOut:
    """List waiters by platform, in the order they will be served; with `only`, those of these bots.
    The number of queries does not grow with the number of waiters."""
    platforms = [platform] if platform else list(Platform)
    waiting = QueueEntry.objects.filter(platform__in=platforms).select_related("bot")
    if only is not None:
        waiting = waiting.filter(bot__in=only)
    places: dict[int, Place] = {}
    for each in platforms:
        places |= places_in_line(each.value, limit=limit if only is None else None)
    if only is not None:
        own = set(waiting.values_list("bot_id", flat=True))
        places = {bot_id: place for bot_id, place in places.items() if bot_id in own}
    shown = dict(list(places.items())[:limit])
    entries = waiting.in_bulk(list(shown), field_name="bot_id")
    return QueueOut(
        waiters=[
            _waiter(entries[bot_id], place) for bot_id, place in shown.items() if bot_id in entries
        ],
        total=waiting.count(),
    )


def _waiter(entry: QueueEntry, place: Place) -> Waiter:
    return Waiter(
        bot_id=entry.bot_id,
        platform=Platform(entry.platform),
        priority=entry.priority,
        # The time in the entry sets its place in the queue; the true one is on the bot.
        queued_at=entry.bot.queued_at or entry.bot.status_since,
        timeout_at=entry.timeout_at,
        queue_position=place.position,
        estimated_wait_ms=milliseconds(place.estimated_wait),
    )


def milliseconds(wait: timedelta | None) -> int | None:
    return None if wait is None else wait // timedelta(milliseconds=1)
