"""Work for a bot is logged, and Coolify called, under the bot's correlation id."""

from contextlib import AbstractContextManager, nullcontext

from bots.models import Bot
from core.correlation import correlated
from slots.deployment import Deployment
from slots.finding import Finding


def as_bot_of(deployment: Deployment) -> AbstractContextManager[None]:
    try:
        return correlated(deployment.bot.correlation_id, bot=deployment.bot_id)
    except Bot.DoesNotExist:
        return nullcontext()  # retention has deleted it


def as_bot_of_finding(finding: Finding) -> AbstractContextManager[None]:
    """Under its bot's id, or else that of the last bot in its slot."""
    if finding.bot_id is not None:
        bot = Bot.objects.filter(pk=finding.bot_id).first()
        return nullcontext() if bot is None else correlated(bot.correlation_id, bot=bot.pk)
    slot = finding.slot
    if slot is None or slot.last_bot_id is None:
        return nullcontext()
    return correlated(slot.correlation_id, bot=slot.last_bot_id)
