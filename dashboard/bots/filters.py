"""Filters of the bot list, read from the query string."""

from django.db.models import Q, QuerySet
from django.http import QueryDict

from bots.models import Bot
from bots.search import document, query
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
        bots = bots.alias(words=document()).filter(_search(words))
    return bots


def _search(words: str) -> Q:
    """Each condition has an index: together they cost little, however many bots there are."""
    found = Q(correlation_id=words)
    number = words.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 10:
        found |= Q(pk=int(number))
    wanted = query(words)
    if wanted is not None:
        found |= Q(words=wanted)
    return found | _ran_in_container(words)


def _ran_in_container(coolify_uuid: str) -> Q:
    """The bot in this container, or the one that last was."""
    bot = get_bot_by_container_uuid(coolify_uuid)
    return Q() if bot is None else Q(pk=bot.pk)
