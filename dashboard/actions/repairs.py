"""Operator actions on repairs that are held back."""

from django.http import QueryDict

from core.permissions import OPERATE
from dashboard.actions.action import MOST_TARGETS, Action, Order, Target
from pool.reconciler.approvals import approve_repair, held_back_repairs
from slots.finding import Finding


def _find(given: QueryDict) -> list[Target]:
    if given.get("all") == "repairs":
        found = held_back_repairs()
        for field in ("kind", "platform"):
            if given.get(field):
                found = found.filter(**{field: given[field]})
    else:
        items = [int(item) for item in given.getlist("item") if item.isdecimal()]
        found = Finding.objects.filter(pk__in=items).order_by("pk")
    return [_target(finding) for finding in found.select_related("slot", "bot")[:MOST_TARGETS]]


def _target(finding: Finding) -> Target:
    is_over = finding.ended_at is not None or not finding.held_back
    return Target(
        key=str(finding.pk),
        seen=finding.fingerprint,
        name=finding.name or finding.subject,
        link=f"/slots/{finding.slot.name}/" if finding.slot else "",
        effect=f"{finding.decision}. {finding.reason}",
        why_not="it is no longer held back" if is_over else "",
        bot=finding.bot,
    )


def _approve(order: Order) -> bool:
    return approve_repair(order.number, seen=order.seen, reason=order.reason, actor=order.actor)


REPAIR_ACTIONS = (
    Action(
        name="approve-repair",
        title="Approve repair",
        heading="Approve the repair of {}",
        permission=OPERATE,
        find=_find,
        do=_approve,
        back="activity",
        noun="finding",
        thing="Finding ",
        is_dangerous=True,
    ),
)
