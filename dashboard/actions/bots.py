"""Operator actions on bots."""

from django.db import transaction
from django.http import QueryDict

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus
from core.permissions import OPERATE
from dashboard.actions.action import MOST_TARGETS, Action, NotDone, Order, Target
from dashboard.bots.filters import bots_that_match
from pool.lifecycle import end_bot
from pool.request import BotRequest, request_bot_once
from pool.sharing.quota import OverQuota

TRIED_AGAIN = "it was already tried again; use the newer bot"


def chosen_bots(given: QueryDict) -> list[Bot]:
    if given.get("all") == "bots":
        return list(bots_that_match(given).order_by("-pk")[:MOST_TARGETS])
    items = [int(item) for item in given.getlist("item") if item.isdecimal()]
    return list(Bot.objects.filter(pk__in=items).order_by("pk"))


def bot_target(bot: Bot, *, effect: str, why_not: str = "") -> Target:
    return Target(
        key=str(bot.pk),
        seen=bot.status,
        name=str(bot),
        link=f"/bots/{bot.pk}/",
        effect=effect,
        why_not=why_not,
        bot=bot,
    )


def bot_of(order: Order) -> Bot:
    bot = Bot.objects.filter(pk=order.number).first()
    if bot is None:
        raise NotDone("it no longer exists")
    return bot


def _find_to_cancel(given: QueryDict) -> list[Target]:
    return [
        bot_target(
            bot,
            effect=_ends(bot),
            why_not=f"it has ended ({_status(bot)})" if bot.is_terminal else "",
        )
        for bot in chosen_bots(given)
    ]


def _ends(bot: Bot) -> str:
    if bot.status == BotStatus.QUEUED:
        return "Leaves the queue"
    if bot.status == BotStatus.PENDING:
        return "Gets no slot"
    ends = "Its start ends" if bot.status == BotStatus.DEPLOYING else "Leaves its meeting"
    return f"{ends}; {bot.slot_name or 'its slot'} stops and becomes idle"


def _status(bot: Bot) -> str:
    return bot.get_status_display().lower()


def _cancel(order: Order) -> bool:
    # No check of `seen`: the bot must end whatever it has done since.
    reason = f"Cancelled by operator: {order.reason}"
    return end_bot(bot_of(order), Outcome(BotStatus.CANCELLED, reason, order.actor))


def _find_to_try_again(given: QueryDict) -> list[Target]:
    return [
        bot_target(
            bot,
            effect="Sends a new bot to the same meeting",
            why_not="" if bot.is_terminal else f"it has not ended (it is {_status(bot)})",
        )
        for bot in chosen_bots(given)
    ]


def _try_again(order: Order) -> bool:
    with transaction.atomic():
        # The lock lasts until the new bot exists: a form sent twice must not create two bots.
        bot = Bot.objects.select_for_update().filter(pk=order.number).first()
        if bot is None or not bot.is_terminal:
            raise NotDone(TRIED_AGAIN)
        try:
            _, is_new = request_bot_once(_same_request(bot), actor=order.actor)
        except OverQuota as refusal:
            raise NotDone(str(refusal)) from None
        if not is_new:
            raise NotDone(TRIED_AGAIN)
    return True


def _same_request(bot: Bot) -> BotRequest:
    return BotRequest(
        meeting_url=bot.meeting_url,
        platform=bot.platform,
        display_name=bot.display_name,
        priority=bot.priority,
        queue_timeout=bot.queue_timeout,
        config=bot.config,
        # For readers of logs. Callers may choose the same one, so only the key is proof.
        correlation_id=f"again-{bot.pk}",
        request_key=f"again:{bot.pk}",
        client_id=bot.client_id,
    )


BOT_ACTIONS = (
    Action(
        name="cancel-bot",
        title="Cancel",
        heading="Cancel {}",
        permission=OPERATE,
        find=_find_to_cancel,
        do=_cancel,
        back="bots",
        noun="bot",
        thing="Bot #",
        is_dangerous=True,
    ),
    Action(
        name="try-again",
        title="Try again",
        heading="Try {} again",
        permission=OPERATE,
        find=_find_to_try_again,
        do=_try_again,
        back="bots",
        noun="bot",
        thing="Bot #",
    ),
)
