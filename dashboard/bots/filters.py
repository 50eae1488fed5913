"""Filters of the bot list, read from the query string."""

import re

from django.db.models import Q, QuerySet
from django.http import QueryDict

from bots.models import Bot
from bots.search import document, query, same_document
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
        bots = bots.alias(words=document(), same_words=same_document()).filter(_search(words))
    return bots


def _search(words: str) -> Q:
    """Each condition has an index: together they cost little, however many bots there are."""
    found = Q(correlation_id=words) | _numbered(words)
    wanted = query(words)
    if wanted is not None:
        found |= Q(words=wanted) & Q(same_words=wanted)
    return found | _ran_in_container(words)


# "7", "#7", "7, 9, 12", "#7 #9" and "101-105". Digits with blanks between them are a meeting's.
_ONE = r"#?\d{1,9}(?:-#?\d{1,9})?"
_NUMBERS = re.compile(rf"{_ONE}(?:(?:\s*,\s*|\s+(?=#)){_ONE})*", re.ASCII)
MOST_NUMBERS = 1_000


def ranges_of(words: str) -> list[tuple[int, int]]:
    """The bot numbers that these words list, as ranges; empty if they are something else."""
    if not _NUMBERS.fullmatch(words):
        return []
    parts = re.split(r"[\s,]+", words.replace("#", ""))
    ends = [part.partition("-")[::2] for part in parts]
    found = [(int(first), int(last or first)) for first, last in ends]
    return found if sum(max(last - first, 0) for first, last in found) < MOST_NUMBERS else []


def _numbered(words: str) -> Q:
    found = Q()
    for first, last in ranges_of(words):
        found |= Q(pk=first) if first == last else Q(pk__range=(first, last))
    return found


def _ran_in_container(coolify_uuid: str) -> Q:
    """The bot in this container, or the one that last was."""
    bot = get_bot_by_container_uuid(coolify_uuid)
    return Q() if bot is None else Q(pk=bot.pk)
