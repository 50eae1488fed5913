"""Operator actions on the queue, waiting bots and whole platforms."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial

from django import forms
from django.db.models import Count
from django.db.models.functions import Now
from django.http import QueryDict

from bots.models import HIGHEST_PRIORITY_NUMBER
from bots.status import BotStatus, Platform
from core.clock import database_now
from core.permissions import ADMINISTER, OPERATE
from dashboard.actions.action import Action, NotDone, Order, ReasonForm, Target
from dashboard.actions.bots import bot_of, bot_target, chosen_bots
from pool.capacity import current_pause, pool_size
from pool.line import change_priority, move_down, move_up
from pool.steering import pause_platform, resume_platform, set_pool_size
from queues.models import QueueEntry
from slots.models import Pool, Slot

LARGEST_POOL = 10_000


class PriorityForm(ReasonForm):
    field_order = ("priority", "reason")
    priority = forms.IntegerField(
        min_value=0,
        max_value=HIGHEST_PRIORITY_NUMBER,
        widget=forms.NumberInput(attrs={"autofocus": True}),
        help_text="Lower numbers go first.",
    )


class PauseForm(ReasonForm):
    minutes = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=10_080,
        help_text="Leave empty if it lasts until you resume.",
    )


class SizeForm(ReasonForm):
    field_order = ("size", "reason")
    size = forms.IntegerField(
        label="Maximum slots",
        min_value=0,
        max_value=LARGEST_POOL,
        widget=forms.NumberInput(attrs={"autofocus": True}),
    )


# --- One waiting bot ---------------------------------------------------------------------------


def _find_waiters(given: QueryDict, *, stuck: Callable[[], dict[int, str]] = dict) -> list[Target]:
    """`stuck` returns the bots whose place cannot change, and why."""
    why_stuck = stuck()
    return [
        bot_target(
            bot,
            effect="Changes its place in the queue; its deadline stays the same",
            why_not=why_stuck.get(bot.pk, "")
            if bot.status == BotStatus.QUEUED
            else f"it is not waiting ({bot.get_status_display().lower()})",
        )
        for bot in chosen_bots(given)
    ]


def _firsts() -> dict[int, str]:
    return dict.fromkeys(_heads_of_lines("turn", "pk"), "no bot of its client is ahead of it")


def _lasts() -> dict[int, str]:
    return dict.fromkeys(_heads_of_lines("-turn", "-pk"), "no bot of its client is behind it")


def _heads_of_lines(*order: str) -> Iterable[int]:
    """Of each client: its bots change places among themselves."""
    waiting = QueueEntry.objects.filter(timeout_at__gt=Now()).order_by("platform", "lane", *order)
    return waiting.distinct("platform", "lane").values_list("bot_id", flat=True)


def _move_up(order: Order) -> bool:
    if not move_up(bot_of(order), reason=order.reason, actor=order.actor):
        raise NotDone("it is no longer waiting, or no bot of its client is ahead of it")
    return True


def _move_down(order: Order) -> bool:
    if not move_down(bot_of(order), reason=order.reason, actor=order.actor):
        raise NotDone("it is no longer waiting, or no bot of its client is behind it")
    return True


def _prioritise(order: Order) -> bool:
    priority = order.data["priority"]
    return change_priority(bot_of(order), priority, reason=order.reason, actor=order.actor)


# --- A whole platform --------------------------------------------------------------------------


def _platforms(given: QueryDict) -> list[Platform]:
    return [each for each in Platform if each.value in given.getlist("item")]


def _waiting() -> dict[str, int]:
    rows = QueueEntry.objects.values_list("platform").order_by()
    return dict(rows.annotate(Count("id")))


def _find_to_pause(given: QueryDict) -> list[Target]:
    waiting = _waiting()
    return [
        _platform_target(
            each,
            effect=f"New bots and waiting bots ({waiting.get(each, 0)}) get no slot. Running bots "
            "continue. Waiting bots still give up at their deadlines",
        )
        for each in _platforms(given)
    ]


def _find_to_resume(given: QueryDict) -> list[Target]:
    waiting = _waiting()
    return [
        _platform_target(
            each,
            effect=f"Waiting bots ({waiting.get(each, 0)}) get slots again, in order",
            why_not="" if current_pause(each) else "it is not paused",
        )
        for each in _platforms(given)
    ]


def _platform_target(platform: Platform, *, effect: str, why_not: str = "") -> Target:
    return Target(
        key=platform.value,
        seen="",
        name=platform.label,
        link=f"/queue/?platform={platform.value}",
        effect=effect,
        why_not=why_not,
    )


def _check_platform(order: Order) -> None:
    if order.key not in Platform.values:
        raise NotDone("there is no such platform")


def _pause(order: Order) -> bool:
    _check_platform(order)
    minutes = order.data.get("minutes")
    until = database_now() + timedelta(minutes=minutes) if minutes else None
    pause_platform(order.key, reason=order.reason, actor=order.actor, until=until)
    return True


def _resume(order: Order) -> bool:
    if not resume_platform(order.key, reason=order.reason, actor=order.actor):
        raise NotDone("it was not paused")
    return True


def _find_to_resize(given: QueryDict) -> list[Target]:
    pools = {pool.platform: pool for pool in Pool.objects.all()}
    slots = dict(Slot.objects.values_list("platform").order_by().annotate(Count("id")))
    return [
        _platform_target(
            each,
            effect=f"Maximum now: {pool_size(each, pools.get(each))}. Slots in the pool: "
            f"{slots.get(each, 0)}. A larger pool grows as bots arrive. In a smaller pool, slots "
            "beyond the maximum get no bots, idle ones first. No meeting is cut short",
        )
        for each in _platforms(given)
    ]


def _resize(order: Order) -> bool:
    _check_platform(order)
    size = order.data["size"]
    if not set_pool_size(order.key, size, reason=order.reason, actor=order.actor):
        raise NotDone("it already has this size")
    return True


def _find_to_reset(given: QueryDict) -> list[Target]:
    pools = {pool.platform: pool for pool in Pool.objects.all()}
    return [
        _platform_target(
            each,
            effect=f"Maximum now: {pool_size(each, pools.get(each))}, set by an operator. Then: "
            f"{pool_size(each)}, as MAX_POOL_SIZE says. No meeting is cut short",
            why_not=""
            if each in pools and pools[each].max_size is not None
            else "it already has the size of MAX_POOL_SIZE",
        )
        for each in _platforms(given)
    ]


def _reset_size(order: Order) -> bool:
    _check_platform(order)
    if not set_pool_size(order.key, None, reason=order.reason, actor=order.actor):
        raise NotDone("it already has the size of MAX_POOL_SIZE")
    return True


QUEUE_ACTIONS = (
    Action(
        name="move-up",
        title="Move up",
        heading="Move {} up",
        permission=OPERATE,
        find=partial(_find_waiters, stuck=_firsts),
        do=_move_up,
        back="queue",
        noun="bot",
        thing="Bot #",
    ),
    Action(
        name="move-down",
        title="Move down",
        heading="Move {} down",
        permission=OPERATE,
        find=partial(_find_waiters, stuck=_lasts),
        do=_move_down,
        back="queue",
        noun="bot",
        thing="Bot #",
    ),
    Action(
        name="priority",
        title="Change priority",
        heading="Change the priority of {}",
        permission=OPERATE,
        find=_find_waiters,
        do=_prioritise,
        back="queue",
        noun="bot",
        thing="Bot #",
        form=PriorityForm,
    ),
    Action(
        name="pause",
        title="Pause",
        heading="Pause {}",
        permission=OPERATE,
        find=_find_to_pause,
        do=_pause,
        back="queue",
        noun="platform",
        form=PauseForm,
        is_dangerous=True,
    ),
    Action(
        name="drain",
        title="Drain",
        heading="Drain {}",
        permission=OPERATE,
        find=_find_to_pause,
        do=_pause,
        back="maintenance",
        noun="platform",
        form=PauseForm,
        is_dangerous=True,
    ),
    Action(
        name="resume",
        title="Resume",
        heading="Resume {}",
        permission=OPERATE,
        find=_find_to_resume,
        do=_resume,
        back="queue",
        noun="platform",
    ),
    Action(
        name="resize",
        title="Change size",
        heading="Change the size of {}",
        permission=ADMINISTER,
        find=_find_to_resize,
        do=_resize,
        back="overview",
        noun="platform",
        form=SizeForm,
    ),
    Action(
        name="reset-size",
        title="Reset size",
        heading="Return {} to the size of MAX_POOL_SIZE",
        permission=ADMINISTER,
        find=_find_to_reset,
        do=_reset_size,
        back="overview",
        noun="platform",
    ),
)
