"""Operator actions on webhook endpoints and deliveries."""

from collections.abc import Callable

from django.http import QueryDict

from api.webhooks.endpoints import disable_endpoint, enable_endpoint, send_again
from api.webhooks.signatures import rotate_secret
from bots.models import WebhookDelivery, WebhookEndpoint
from core.permissions import ADMINISTER, OPERATE
from dashboard.actions.action import Action, NotDone, Order, Target

Judge = Callable[[WebhookEndpoint], str]


def _find(effect: str, why_not: Judge = lambda _: "") -> Callable[[QueryDict], list[Target]]:
    def find(given: QueryDict) -> list[Target]:
        items = [int(item) for item in given.getlist("item") if item.isdecimal()]
        found = WebhookEndpoint.objects.filter(pk__in=items).select_related("api_key")
        return [_target(each, effect, why_not(each)) for each in found.order_by("pk")]

    return find


def _target(endpoint: WebhookEndpoint, effect: str, why_not: str) -> Target:
    return Target(
        key=str(endpoint.pk),
        seen=str(endpoint.secret_version),
        name=f"Endpoint {endpoint.pk} of {endpoint.api_key}",
        link=f"/webhooks/{endpoint.pk}/",
        effect=effect,
        why_not=why_not,
    )


def _endpoint(order: Order) -> WebhookEndpoint:
    found = WebhookEndpoint.objects.filter(pk=order.number).select_related("api_key").first()
    if found is None:
        raise NotDone("it no longer exists")
    return found


def _enable(order: Order) -> bool:
    if not enable_endpoint(_endpoint(order)):
        raise NotDone("it is not disabled")
    return True


def _disable(order: Order) -> bool:
    because = f"Disabled by {order.actor.removeprefix('user:')}: {order.reason}"
    if not disable_endpoint(_endpoint(order), because=because):
        raise NotDone("it is already disabled")
    return True


def _rotate(order: Order) -> str:
    endpoint = _endpoint(order)
    if str(endpoint.secret_version) != order.seen:
        raise NotDone("its secret changed after you opened the page")
    what = "this endpoint" if endpoint.is_named else f"addresses in requests of {endpoint.api_key}"
    return f"New secret of {what}, shown only once: {rotate_secret(endpoint.signer)}"


def _delete(order: Order) -> bool:
    _endpoint(order).delete()
    return True


def _find_deliveries(given: QueryDict) -> list[Target]:
    items = [int(item) for item in given.getlist("item") if item.isdecimal()]
    found = WebhookDelivery.objects.filter(pk__in=items).select_related("endpoint", "event__bot")
    return [
        Target(
            key=str(each.pk),
            seen="",
            name=f"Event {each.event_id}",
            effect="Is sent again",
            why_not=_why_not_again(each),
            bot=each.event.bot,
        )
        for each in found.order_by("pk")
    ]


def _why_not_again(delivery: WebhookDelivery) -> str:
    is_disabled = delivery.endpoint is not None and delivery.endpoint.disabled_at is not None
    return "its endpoint is disabled: enable that first" if is_disabled else ""


def _send_again(order: Order) -> bool:
    delivery = WebhookDelivery.objects.filter(pk=order.number).select_related("endpoint").first()
    why_not = _why_not_again(delivery) if delivery else "it no longer exists"
    if delivery is None or why_not:
        raise NotDone(why_not)
    send_again(delivery)
    return True


def _is_not_disabled(endpoint: WebhookEndpoint) -> str:
    return "" if endpoint.disabled_at else "it is not disabled"


def _is_disabled(endpoint: WebhookEndpoint) -> str:
    return "it is already disabled" if endpoint.disabled_at else ""


WEBHOOK_ACTIONS = (
    Action(
        name="enable-webhook",
        title="Enable webhook",
        heading="Enable {}",
        permission=OPERATE,
        find=_find("What was kept is sent, then each new event", _is_not_disabled),
        do=_enable,
        back="webhooks",
        noun="endpoint",
        thing="Webhook ",
    ),
    Action(
        name="disable-webhook",
        title="Disable webhook",
        heading="Disable {}",
        permission=OPERATE,
        find=_find("Its events are kept until it is enabled", _is_disabled),
        do=_disable,
        back="webhooks",
        noun="endpoint",
        thing="Webhook ",
        is_dangerous=True,
    ),
    Action(
        name="rotate-webhook-secret",
        title="Rotate secret",
        heading="Rotate the secret of {}",
        permission=ADMINISTER,
        find=_find("It gets a new secret; for a time the old one signs, too"),
        do=_rotate,
        back="webhooks",
        noun="endpoint",
        thing="Webhook ",
    ),
    Action(
        name="delete-webhook",
        title="Delete webhook",
        heading="Delete {}",
        permission=ADMINISTER,
        find=_find("It gets no more events; its deliveries are deleted"),
        do=_delete,
        back="webhooks",
        noun="endpoint",
        thing="Webhook ",
        is_dangerous=True,
        deletes=True,
    ),
    Action(
        name="send-webhook-again",
        title="Send again",
        heading="Send {} again",
        permission=OPERATE,
        find=_find_deliveries,
        do=_send_again,
        back="webhooks",
        noun="delivery",
        thing="Delivery ",
    ),
)
