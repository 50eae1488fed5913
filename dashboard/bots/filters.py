"""Filters of the bot list, read from the query string."""

from django.db.models import Q, QuerySet
from django.http import QueryDict

from bots.models import Bot
from bots.status import TERMINAL, BotStatus, Platform
from pool.lifecycle import get_bot_by_container_uuid

CHOICES: dict[str, list[tuple[str, str]]] = {
    "platform": [(each.value, each.label) for each in Platform],
    "status": [("live", "Not ended"), *((each.value, each.label) for each in BotStatus)],
}


def bots_that_match(given: QueryDict) -> QuerySet[Bot]:
    bots = Bot.objects.all()
    if given.get("platform"):
        bots = bots.filter(platform=given["platform"])
    if given.get("status") == "live":
        bots = bots.exclude(status__in=TERMINAL)
    elif given.get("status"):
        bots = bots.filter(status=given["status"])
    words = given.get("q", "").strip()
    if words:
        bots = bots.filter(_search(words))
    return bots


def _search(words: str) -> Q:
    number = words.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 10:
        return Q(pk=int(number)) | Q(correlation_id=words) | Q(meeting_url__contains=words)
    return (
        Q(correlation_id=words)
        | Q(meeting_url__icontains=words)
        | Q(display_name__icontains=words)
        | Q(slot_name=words)
        | _ran_in_container(words)
    )


def _ran_in_container(coolify_uuid: str) -> Q:
    """The bot in this container, or the one that last was."""
    bot = get_bot_by_container_uuid(coolify_uuid)
    return Q() if bot is None else Q(pk=bot.pk)
