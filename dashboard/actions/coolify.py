"""Operator actions on the calls to Coolify."""

from django.http import QueryDict

from coolify.budget.report import BudgetReport, budget_report
from coolify.shared import refused_access
from core.permissions import OPERATE
from dashboard.actions.action import Action, NotDone, Order, Target
from pool.steering import resume_calls, try_access_again

PAUSE, CIRCUIT, ACCESS = "pause", "circuit", "access"


def _find(given: QueryDict) -> list[Target]:
    budget = budget_report()
    found = [_pause(budget), _circuit(budget)]
    return [target for target in found if target.key in given.getlist("item")]


def _pause(budget: BudgetReport) -> Target:
    until = budget.paused_until
    return Target(
        key=PAUSE,
        seen=until.isoformat() if until else "",
        name="the pause of calls",
        link="/activity/?show=parts",
        effect=f"Calls go on now, not at {until:%H:%M:%S} UTC. If Coolify still refuses them, "
        "a new pause begins"
        if until
        else "",
        why_not="" if until else "calls are not paused",
    )


def _circuit(budget: BudgetReport) -> Target:
    until = budget.circuit_until
    is_closed = budget.circuit == "closed"
    return Target(
        key=CIRCUIT,
        seen=until.isoformat() if until else "",
        name="Coolify",
        link="/activity/?show=parts",
        effect="The next call shows whether Coolify answers. If it does, all calls go on",
        why_not="Coolify answers: the circuit is closed" if is_closed else "",
    )


def _lift(order: Order) -> bool:
    current = {target.key: target for target in (t(budget_report()) for t in (_pause, _circuit))}
    if order.key not in current:
        raise NotDone("there is no such pause")
    if current[order.key].why_not:
        raise NotDone(current[order.key].why_not)
    if current[order.key].seen != order.seen:
        return False
    return resume_calls(is_circuit=order.key == CIRCUIT, reason=order.reason, actor=order.actor)


def _find_refusals(given: QueryDict) -> list[Target]:
    found = refused_access()
    return [
        Target(
            key=ACCESS,
            seen=ACCESS,
            name="calls that Coolify refused",
            link="/activity/?show=parts",
            effect=found[0].reason if found else "",
            why_not="" if found else "Coolify refuses no call",
        )
    ]


def _try_again(order: Order) -> bool:
    return try_access_again(reason=order.reason, actor=order.actor)


COOLIFY_ACTIONS = (
    Action(
        name="try-access",
        title="Try again",
        heading="Try again: {}",
        permission=OPERATE,
        find=_find_refusals,
        do=_try_again,
        back="overview",
        noun="refusal",
        thing="Calls to Coolify: ",
    ),
    Action(
        name="try-coolify",
        title="Try now",
        heading="Try {} now",
        permission=OPERATE,
        find=_find,
        do=_lift,
        back="overview",
        noun="call",
        thing="Calls to Coolify: ",
    ),
    Action(
        name="lift-pause",
        title="Lift pause",
        heading="Lift {}",
        permission=OPERATE,
        find=_find,
        do=_lift,
        back="activity",
        noun="pause",
        thing="Calls to Coolify: ",
    ),
)
