"""Operator actions on deployments and leases."""

from django.http import QueryDict

from bots.moves import Outcome
from bots.status import BotStatus
from core.leases import break_lease
from core.permissions import ADMINISTER, OPERATE
from dashboard.actions.action import Action, NotDone, Order, Target
from pool.lifecycle import release_bot_from_slot
from slots.deployment import ACTIVE, Deployment
from slots.locks import slots_of_leases
from slots.models import Lease


def _find_deployments(given: QueryDict) -> list[Target]:
    items = [int(item) for item in given.getlist("item") if item.isdecimal()]
    found = Deployment.objects.filter(pk__in=items).select_related("bot").order_by("pk")
    return [_deployment_target(each) for each in found]


def _deployment_target(deployment: Deployment) -> Target:
    is_active = deployment.status in ACTIVE
    return Target(
        key=str(deployment.pk),
        seen=str(deployment.epoch),
        name=f"Deployment {deployment.pk} of {deployment.slot_name}",
        link=f"/slots/{deployment.slot_name}/",
        effect=f"Bot #{deployment.bot_id} is cancelled; the slot stops and becomes idle",
        why_not="" if is_active else f"it has ended ({deployment.get_status_display().lower()})",
        bot=deployment.bot,
    )


def _cancel_deployment(order: Order) -> bool:
    found = Deployment.objects.filter(pk=order.number, status__in=ACTIVE)
    deployment = found.select_related("slot").first()
    if deployment is None or deployment.slot.epoch != deployment.epoch:
        raise NotDone("it has ended")
    reason = f"Deployment cancelled by operator: {order.reason}"
    return release_bot_from_slot(deployment.slot, Outcome(BotStatus.CANCELLED, reason, order.actor))


def _find_leases(given: QueryDict) -> list[Target]:
    leases = Lease.objects.filter(key__in=given.getlist("item")).order_by("key")
    slots = slots_of_leases(leases)
    return [
        Target(
            key=lease.key,
            seen=str(lease.fence),
            name=f"{slots[lease.key]} ({lease.key})" if lease.key in slots else lease.key,
            link=f"/slots/{slots[lease.key]}/" if lease.key in slots else "",
            effect=f"{lease.holder} loses it and its later writes are refused",
            why_not="" if lease.holder else "no process holds it",
        )
        for lease in leases
    ]


def _break(order: Order) -> bool:
    lease = Lease.objects.filter(key=order.key).first()
    if lease is None or str(lease.fence) != order.seen:
        raise NotDone("its holder changed after you opened the page")
    return break_lease(order.key)


WORK_ACTIONS = (
    Action(
        name="cancel-deployment",
        title="Cancel deployment",
        heading="Cancel {}",
        permission=OPERATE,
        find=_find_deployments,
        do=_cancel_deployment,
        back="deployments",
        noun="deployment",
        thing="Deployment ",
        is_dangerous=True,
    ),
    Action(
        name="break-lease",
        title="Break lease",
        heading="Break lease: {}",
        permission=ADMINISTER,
        find=_find_leases,
        do=_break,
        back="activity",
        noun="lease",
        is_dangerous=True,
    ),
)
