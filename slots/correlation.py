"""Whose story the work at hand belongs to: its log lines and calls bear that bot's id."""

from contextlib import AbstractContextManager, nullcontext

from bots.models import Bot
from core.correlation import correlated
from slots.deployment import Deployment
from slots.finding import Finding


def story_of(deployment: Deployment | None) -> AbstractContextManager[None]:
    try:
        return _story(deployment.bot if deployment else None)
    except Bot.DoesNotExist:
        return nullcontext()  # it ended so long ago that it has been pruned


def story_of_finding(finding: Finding) -> AbstractContextManager[None]:
    """Of its bot; in a slot that nobody holds, of the bot that held it last."""
    if finding.bot_id is not None:
        return _story(Bot.objects.filter(pk=finding.bot_id).first())
    last = Deployment.objects.filter(slot=finding.slot_id).order_by("-id").first()
    return story_of(last)


def _story(bot: Bot | None) -> AbstractContextManager[None]:
    return nullcontext() if bot is None else correlated(bot.correlation_id, bot=bot.pk)
