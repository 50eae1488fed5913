"""Operator actions on servers."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.http import QueryDict

from coolify.client.image import LONGEST, is_image
from core.clock import database_now
from core.permissions import OPERATE
from dashboard.actions.action import Action, NotDone, Order, ReasonForm, Target
from pool.controller.images import mark_image_cold
from pool.servers.orders import (
    OrderRefused,
    UnlikelyTime,
    check_window,
    cordon_server,
    drain_server,
    plan_maintenance,
    return_server,
    warm_image,
)
from pool.servers.overview import ServerOverview, server_overviews
from servers.models import Server
from slots.deployment import WarmImage


class UntilForm(ReasonForm):
    hours = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=720,
        help_text="It returns by itself after this time. Leave empty to return it yourself.",
    )


class WindowForm(ReasonForm):
    begins = forms.DateTimeField(
        label="Begins (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text="The server drains by itself beforehand.",
    )
    ends = forms.DateTimeField(
        label="Ends (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text="The server returns by itself.",
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        begins, ends = data.get("begins"), data.get("ends")
        if begins and ends:
            try:
                data["begins"], data["ends"] = check_window(begins, ends)
            except UnlikelyTime as error:
                self.add_error(error.field, f"{error}.")
            except OrderRefused as error:
                self.add_error("ends", f"{error}.")
        return data


class ImageForm(ReasonForm):
    image = forms.CharField(
        max_length=LONGEST,
        help_text="With its tag, such as registry.example/bot:1.4.",
    )

    def clean_image(self) -> str:
        image: str = self.cleaned_data["image"]
        if not is_image(image):
            raise forms.ValidationError(
                "Give an image with its tag, in lower case, such as registry.example/bot:1.4."
            )
        return image


def _find(given: QueryDict, effect: Any) -> list[Target]:
    wanted = set(given.getlist("item"))
    return [
        _target(each, *effect(each)) for each in server_overviews() if each.server.uuid in wanted
    ]


def _target(overview: ServerOverview, effect: str, why_not: str = "") -> Target:
    server = overview.server
    return Target(
        key=server.uuid,
        seen=server.order,
        name=str(server),
        link="/servers/",
        effect=effect,
        why_not=why_not,
    )


def _cordon_effect(each: ServerOverview) -> tuple[str, str]:
    why_not = "it is already cordoned" if each.server.order == Server.Order.CORDONED else ""
    return f"No new bots. Its {each.total} slots stay, {each.meetings} meetings go on", why_not


def _drain_effect(each: ServerOverview) -> tuple[str, str]:
    why_not = "it is already draining" if each.server.order == Server.Order.DRAINING else ""
    return (
        f"No new bots. {each.slots['idle']} idle slots leave at once, {each.meetings} slots when "
        "their meetings end. No meeting is cut short",
        why_not,
    )


def _return_effect(each: ServerOverview) -> tuple[str, str]:
    is_out = bool(each.server.order or each.server.window_from)
    return "It gets new bots again", "" if is_out else "it is in service"


def _window_effect(each: ServerOverview) -> tuple[str, str]:
    return "It drains by itself before the window and returns after it", ""


def _warm_effect(each: ServerOverview) -> tuple[str, str]:
    return "The image is pulled there once no bot needs the build place. Bots go on", ""


def _server(order: Order) -> Server:
    server = Server.objects.filter(uuid=order.key).first()
    if server is None:
        raise NotDone("there is no such server")
    if server.order != order.seen:
        raise NotDone("it changed after you opened the page")
    return server


def _until(order: Order) -> datetime | None:
    hours = order.data.get("hours")
    return database_now() + timedelta(hours=hours) if hours else None


def _cordon(order: Order) -> bool:
    return _obey(cordon_server, order, until=_until(order))


def _drain(order: Order) -> bool:
    return _obey(drain_server, order, until=_until(order))


def _plan(order: Order) -> bool:
    return _obey(plan_maintenance, order, begins=order.data["begins"], ends=order.data["ends"])


def _warm(order: Order) -> bool:
    return _obey(warm_image, order, image=order.data["image"])


def _obey(give: Any, order: Order, **more: Any) -> bool:
    try:
        give(_server(order), reason=order.reason, actor=order.actor, **more)
    except OrderRefused as error:
        raise NotDone(str(error)) from None
    return True


def _return(order: Order) -> bool:
    return return_server(_server(order), reason=order.reason, actor=order.actor)


def _action(name: str, title: str, effect: Any, do: Any, form: type[ReasonForm]) -> Action:
    return Action(
        name=name,
        title=title,
        heading=f"{title} {{}}",
        permission=OPERATE,
        find=lambda given: _find(given, effect),
        do=do,
        back="servers",
        noun="server",
        thing="Server ",
        form=form,
        is_dangerous=name not in ("return-server", "warm-image"),
    )


# --- Images ------------------------------------------------------------------------------------


def _find_images(given: QueryDict) -> list[Target]:
    numbers = [each for each in given.getlist("item") if each.isdecimal() and len(each) < 18]
    names = dict(Server.objects.values_list("uuid", "name"))
    return [
        Target(
            key=str(each.pk),
            seen=each.state,
            name=f"{each.image} on {names.get(each.server_uuid) or each.server_uuid}",
            link="/servers/",
            effect="The next start there pulls it alone; others wait for that",
            why_not="it is already cold" if each.cold_since else "",
        )
        for each in WarmImage.objects.filter(pk__in=numbers).order_by("pk")
    ]


def _mark_cold(order: Order) -> bool:
    image = WarmImage.objects.filter(pk=order.number).first()
    if image is None:
        raise NotDone("it does not exist")
    reason = f"{order.actor}: {order.reason}"
    return mark_image_cold(image.image, image.server_uuid, reason=reason)


MARK_COLD = Action(
    name="mark-cold",
    title="Mark cold",
    heading="Mark {} as cold",
    permission=OPERATE,
    find=_find_images,
    do=_mark_cold,
    back="servers",
    noun="image",
    thing="Image ",
    is_dangerous=True,
)

SERVER_ACTIONS = (
    MARK_COLD,
    _action("warm-image", "Warm an image on", _warm_effect, _warm, ImageForm),
    _action("cordon-server", "Cordon", _cordon_effect, _cordon, UntilForm),
    _action("drain-server", "Drain", _drain_effect, _drain, UntilForm),
    _action("maintenance", "Plan maintenance for", _window_effect, _plan, WindowForm),
    _action("return-server", "Return", _return_effect, _return, ReasonForm),
)
