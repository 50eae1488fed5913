"""Operator actions on the images of platforms, and on pre-pulls."""

from typing import Any

from django.http import QueryDict

from core.permissions import OPERATE
from dashboard.actions.action import Action, NotDone, Order, Target
from pool.images.overview import ImageOverview, image_overviews
from pool.images.prepulls import cancel_prepull
from pool.images.rollout import NothingToRestore, follow_again, restore_image
from servers.models import Server
from slots.images import Prepull


def _find(given: QueryDict, effect: Any) -> list[Target]:
    wanted = set(given.getlist("item"))
    return [
        _target(each, *effect(each)) for each in image_overviews() if each.row.platform in wanted
    ]


def _target(each: ImageOverview, effect: str, why_not: str) -> Target:
    return Target(
        key=each.row.platform,
        seen=_version(each),
        name=each.row.get_platform_display(),
        link="/servers/",
        effect=effect,
        why_not=why_not,
    )


def _version(each: ImageOverview) -> str:
    return f"{each.row.image} {each.row.wanted} {each.state}"


def _restore_effect(each: ImageOverview) -> tuple[str, str]:
    image, bad = each.restorable, each.row.wanted or each.row.image
    why_not = "" if image else "there is no earlier image, or it was restored already"
    return f"New bots use {image} instead of {bad}, at once. Running bots go on", why_not


def _follow_effect(each: ImageOverview) -> tuple[str, str]:
    why_not = "" if each.row.restored_at else "it follows the environment"
    return f"{each.row.named} is pulled on each server, then new bots there use it", why_not


def _refuse_changed(order: Order) -> None:
    current = (each for each in image_overviews() if each.row.platform == order.key)
    if not any(_version(each) == order.seen for each in current):
        raise NotDone("it changed after you opened the page")


def _restore(order: Order) -> bool:
    _refuse_changed(order)
    try:
        restore_image(order.key, reason=order.reason, actor=order.actor)
    except NothingToRestore as error:
        raise NotDone(str(error)) from None
    return True


def _follow(order: Order) -> bool:
    _refuse_changed(order)
    return follow_again(order.key, reason=order.reason, actor=order.actor)


def _find_prepulls(given: QueryDict) -> list[Target]:
    numbers = [each for each in given.getlist("item") if each.isdecimal() and len(each) < 18]
    names = dict(Server.objects.values_list("uuid", "name"))
    return [
        Target(
            key=str(each.pk),
            seen=each.status,
            name=f"{each.image} on {names.get(each.server_uuid) or each.server_uuid}",
            link="/servers/",
            effect="It is not pulled there, and a switch to it leaves the server out until it is "
            "warmed there. A pull that has begun is cancelled",
            why_not="" if each.is_open else "it is over",
        )
        for each in Prepull.objects.filter(pk__in=numbers).order_by("pk")
    ]


def _cancel(order: Order) -> bool:
    prepull = Prepull.objects.filter(pk=order.number).first()
    if prepull is None:
        raise NotDone("it does not exist")
    return cancel_prepull(prepull, actor=order.actor, reason=order.reason)


def _action(name: str, title: str, heading: str, effect: Any, do: Any) -> Action:
    return Action(
        name=name,
        title=title,
        heading=heading,
        permission=OPERATE,
        find=lambda given: _find(given, effect),
        do=do,
        back="servers",
        noun="platform",
        thing="Image of ",
        is_dangerous=name == "restore-image",
    )


IMAGE_ACTIONS = (
    _action(
        "restore-image",
        "Restore image",
        "Restore the previous image of {}",
        _restore_effect,
        _restore,
    ),
    _action(
        "follow-image",
        "Follow environment",
        "Follow the environment's image for {}",
        _follow_effect,
        _follow,
    ),
    Action(
        name="cancel-prepull",
        title="Cancel pre-pull",
        heading="Cancel the pre-pull of {}",
        permission=OPERATE,
        find=_find_prepulls,
        do=_cancel,
        back="servers",
        noun="pre-pull",
        thing="Pre-pull ",
        is_dangerous=True,
    ),
)
