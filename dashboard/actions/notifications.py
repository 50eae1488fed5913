"""Operator actions on channels and rules of notifications."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model
from django.http import QueryDict

from core.permissions import ADMINISTER, OPERATE
from dashboard.actions.action import Action, NotDone, Order, Target
from dashboard.notifications.channels import disable_channel, enable_channel
from dashboard.notifications.records import NotificationChannel, NotificationRule
from dashboard.notifications.sending import send_test

M = TypeVar("M", bound=Model)
Named = NotificationChannel | NotificationRule


def _finder(
    model: type[Named], effect: str, why_not: Callable[[Any], str] = lambda _: ""
) -> Callable[[QueryDict], list[Target]]:
    def find(given: QueryDict) -> list[Target]:
        items = [int(item) for item in given.getlist("item") if item.isdecimal()]
        return [
            Target(
                key=str(each.pk),
                seen="",
                name=each.name,
                link="/notifications/",
                effect=effect,
                why_not=why_not(each),
            )
            for each in model.objects.filter(pk__in=items).order_by("pk")
        ]

    return find


def _row(model: type[M], order: Order) -> M:
    found = model._default_manager.filter(pk=order.number).first()
    if found is None:
        raise NotDone("it no longer exists")
    return found


def _test(order: Order) -> bool:
    channel = _row(NotificationChannel, order)
    outcome = send_test(channel, by=order.actor.removeprefix("user:"))
    if not outcome.sent:
        raise NotDone(f"the test did not arrive: {outcome.error}")
    return True


def _enable(order: Order) -> bool:
    if not enable_channel(_row(NotificationChannel, order)):
        raise NotDone("it is not disabled")
    return True


def _disable(order: Order) -> bool:
    if not disable_channel(_row(NotificationChannel, order)):
        raise NotDone("it is already disabled")
    return True


def _delete_channel(order: Order) -> bool:
    _row(NotificationChannel, order).delete()
    return True


def _switch_rule(*, to: bool) -> Callable[[Order], bool]:
    def switch(order: Order) -> bool:
        rule = _row(NotificationRule, order)
        if not NotificationRule.objects.filter(pk=rule.pk, enabled=not to).update(enabled=to):
            raise NotDone("it is already so")
        return True

    return switch


def _delete_rule(order: Order) -> bool:
    _row(NotificationRule, order).delete()
    return True


def _is_enabled(each: Named) -> str:
    return "it is not disabled" if each.enabled else ""


def _is_disabled(each: Named) -> str:
    return "" if each.enabled else "it is disabled"


def _action(**given: Any) -> Action:
    return Action(back="notifications", **given)


_OF_CHANNEL = {"noun": "channel", "thing": "Channel "}
_OF_RULE = {"noun": "rule", "thing": "Rule "}

NOTIFICATION_ACTIONS = (
    _action(
        name="test-channel",
        title="Send test",
        heading="Send a test to {}",
        permission=OPERATE,
        find=_finder(NotificationChannel, "Gets a message now"),
        do=_test,
        **_OF_CHANNEL,
    ),
    _action(
        name="enable-channel",
        title="Enable channel",
        heading="Enable {}",
        permission=OPERATE,
        find=_finder(NotificationChannel, "Is told what holds now", _is_enabled),
        do=_enable,
        **_OF_CHANNEL,
    ),
    _action(
        name="disable-channel",
        title="Disable channel",
        heading="Disable {}",
        permission=OPERATE,
        find=_finder(NotificationChannel, "Gets no more messages", _is_disabled),
        do=_disable,
        is_dangerous=True,
        **_OF_CHANNEL,
    ),
    _action(
        name="delete-channel",
        title="Delete channel",
        heading="Delete {}",
        permission=ADMINISTER,
        find=_finder(NotificationChannel, "Its address and its part of the log are deleted"),
        do=_delete_channel,
        is_dangerous=True,
        deletes=True,
        **_OF_CHANNEL,
    ),
    _action(
        name="enable-rule",
        title="Enable rule",
        heading="Enable {}",
        permission=OPERATE,
        find=_finder(NotificationRule, "Applies from now on", _is_enabled),
        do=_switch_rule(to=True),
        **_OF_RULE,
    ),
    _action(
        name="disable-rule",
        title="Disable rule",
        heading="Disable {}",
        permission=OPERATE,
        find=_finder(NotificationRule, "Nothing is sent by it", _is_disabled),
        do=_switch_rule(to=False),
        is_dangerous=True,
        **_OF_RULE,
    ),
    _action(
        name="delete-rule",
        title="Delete rule",
        heading="Delete {}",
        permission=OPERATE,
        find=_finder(NotificationRule, "Is deleted"),
        do=_delete_rule,
        is_dangerous=True,
        deletes=True,
        **_OF_RULE,
    ),
)
