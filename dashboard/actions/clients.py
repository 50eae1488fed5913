"""Operator actions on clients."""

from django import forms
from django.http import QueryDict

from bots.clients import LARGEST_SHARE
from bots.models import Client
from core.permissions import ADMINISTER
from dashboard.actions.action import Action, NotDone, Order, ReasonForm, Target
from pool.sharing.quota import set_limits


class LimitsForm(ReasonForm):
    max_bots = forms.IntegerField(
        label="Most bots at once", required=False, min_value=0, max_value=1_000_000,
        help_text="Running and waiting ones. Leave empty for no limit.",
    )  # fmt: skip
    max_waiting = forms.IntegerField(
        label="Most bots waiting", required=False, min_value=0, max_value=1_000_000,
        help_text="Leave empty for no limit.",
    )  # fmt: skip
    share = forms.IntegerField(
        min_value=1,
        max_value=LARGEST_SHARE,
        help_text="While clients wait, one with share 2 gets twice as many slots as one with 1.",
    )


def _find(given: QueryDict) -> list[Target]:
    items = [int(item) for item in given.getlist("item") if item.isdecimal()]
    return [
        Target(
            key=str(each.pk),
            seen=_seen(each),
            name=each.name,
            link="/clients/",
            effect="Applies to its next requests; its bots stay",
        )
        for each in Client.objects.filter(pk__in=items).order_by("name")
    ]


def _seen(client: Client) -> str:
    return f"{client.max_bots}/{client.max_waiting}/{client.share}"


def _set(order: Order) -> bool:
    client = Client.objects.filter(pk=order.number).first()
    if client is None or _seen(client) != order.seen:
        raise NotDone("its limits changed after you opened the page")
    set_limits(
        client,
        max_bots=order.data["max_bots"],
        max_waiting=order.data["max_waiting"],
        share=order.data["share"],
    )
    return True


CLIENT_ACTIONS = (
    Action(
        name="client-limits",
        title="Change limits",
        heading="Change the limits of {}",
        permission=ADMINISTER,
        find=_find,
        do=_set,
        back="clients",
        noun="client",
        thing="Client ",
        form=LimitsForm,
    ),
)
