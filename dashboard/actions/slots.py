"""Operator actions on slots."""

from collections.abc import Callable
from functools import partial

from django.http import QueryDict

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from coolify.client.errors import CoolifyError
from coolify.shared import shared_coolify
from core.leases import LeaseLost, LeaseNotAcquired
from core.permissions import ADMINISTER, OPERATE
from dashboard.actions.action import Action, NotDone, Order, Target
from dashboard.slots.filters import slots_that_match
from pool.controller.delete import delete_slot, why_not_to_delete
from pool.lifecycle import handle_slot_error, recover_slot, release_bot_from_slot
from pool.steering import cordon_slot, uncordon_slot
from slots.models import Slot
from slots.status import ContainerStatus, SlotStatus

Effect = Callable[[Slot], tuple[str, str]]  # what will happen, or why the slot is skipped


def find(given: QueryDict, *, effect: Effect) -> list[Target]:
    return [_target(slot, effect) for slot in _chosen(given)]


def _chosen(given: QueryDict) -> list[Slot]:
    if given.get("all") == "slots":
        slots = slots_that_match(given)
    else:
        items = [int(item) for item in given.getlist("item") if item.isdecimal()]
        slots = Slot.objects.filter(pk__in=items).order_by("platform", "number")
    return list(slots.select_related("assigned_bot"))


def _target(slot: Slot, effect: Effect) -> Target:
    will, why_not = effect(slot)
    return Target(
        key=slot.name,
        seen=str(slot.epoch),
        name=slot.name,
        link=f"/slots/{slot.name}/",
        effect=will,
        why_not=why_not,
        bot=slot.assigned_bot,
    )


def _slot(order: Order) -> Slot:
    """The slot, if it has not changed since the operator saw it."""
    slot = Slot.objects.filter(name=order.key).first()
    if slot is None:
        raise NotDone("it no longer exists")
    if str(slot.epoch) != order.seen:
        raise NotDone("it changed after you opened the page")
    return slot


# --- Release and stop --------------------------------------------------------------------------


def _release_effect(slot: Slot) -> tuple[str, str]:
    if slot.assigned_bot_id is None:
        return "", f"it has no bot (it is {slot.status})"
    return f"Bot #{slot.assigned_bot_id} fails, its container stops and the slot becomes idle", ""


def _release(order: Order) -> bool:
    reason = f"Released by operator: {order.reason}"
    failed = Outcome(BotStatus.FAILED, reason, order.actor, FailureCause.OPERATOR)
    return release_bot_from_slot(_slot(order), failed)


def _stop_effect(slot: Slot) -> tuple[str, str]:
    if slot.assigned_bot_id is not None:
        return f"Bot #{slot.assigned_bot_id} is cancelled and its container stops", ""
    if slot.status == SlotStatus.IDLE and _seems_to_run(slot):
        return "It has no bot, but its container is running. The container stops", ""
    return "", f"nothing is running in it (it is {slot.status})"


def _seems_to_run(slot: Slot) -> bool:
    return slot.container_status in (ContainerStatus.RUNNING, ContainerStatus.CRASHING)


def _stop(order: Order) -> bool:
    slot, reason = _slot(order), f"Stopped by operator: {order.reason}"
    if slot.assigned_bot_id is None:
        return recover_slot(slot, reason=reason, actor=order.actor)
    return release_bot_from_slot(slot, Outcome(BotStatus.CANCELLED, reason, order.actor))


# --- Recreate and retry ------------------------------------------------------------------------


def _recreate_effect(slot: Slot) -> tuple[str, str]:
    if slot.status == SlotStatus.STOPPING:
        return "", "it is already stopping"
    deleted = "application is deleted. The next start creates a new one, which takes minutes"
    if slot.assigned_bot_id is not None:
        return f"Bot #{slot.assigned_bot_id} fails and its {deleted}", ""
    return f"Its {deleted}", ""


def _recreate(order: Order) -> bool:
    slot, reason = _slot(order), f"Recreated by operator: {order.reason}"
    if slot.assigned_bot_id is None:
        return recover_slot(slot, reason=reason, actor=order.actor, recreate=True)
    # Do not place the bot again: its container may be up already, and no bot may run twice.
    return handle_slot_error(
        slot,
        reason,
        cause=FailureCause.OPERATOR,
        actor=order.actor,
        recreate=True,
        place_again=False,
    )


def _retry_effect(slot: Slot) -> tuple[str, str]:
    if slot.status != SlotStatus.ERROR:
        return "", f"it is not in error (it is {slot.status})"
    return "Its container stops if it is running. Then the slot becomes idle", ""


def _retry(order: Order) -> bool:
    reason = f"Retried by operator: {order.reason}"
    return recover_slot(_slot(order), reason=reason, actor=order.actor)


# --- Cordon and delete -------------------------------------------------------------------------


def _cordon_effect(slot: Slot) -> tuple[str, str]:
    if slot.cordoned:
        return "", "it is already cordoned"
    stays = f". Bot #{slot.assigned_bot_id} stays until it ends" if slot.assigned_bot_id else ""
    return f"Gets no new bots{stays}", ""


def _cordon(order: Order) -> bool:
    return cordon_slot(_slot(order), reason=order.reason, actor=order.actor)


def _uncordon_effect(slot: Slot) -> tuple[str, str]:
    if slot.beyond_size:
        return "", "it is beyond the pool's size: change the size instead"
    return ("Gets new bots again", "") if slot.cordoned else ("", "it is not cordoned")


def _uncordon(order: Order) -> bool:
    return uncordon_slot(_slot(order), reason=order.reason, actor=order.actor)


def _delete_effect(slot: Slot) -> tuple[str, str]:
    why_not = why_not_to_delete(slot)
    return ("" if why_not else "The slot and its application in Coolify are deleted"), why_not


def _delete(order: Order) -> bool:
    slot = _slot(order)
    try:
        return delete_slot(slot, reason=order.reason, actor=order.actor, coolify=shared_coolify())
    except CoolifyError as error:
        raise NotDone(f"Coolify did not delete its application: {error}") from error
    except (LeaseNotAcquired, LeaseLost) as error:
        raise NotDone("another process is working on it; try again in a moment") from error


def _action(
    name: str,
    title: str,
    effect: Effect,
    do: Callable[[Order], bool],
    *,
    permission: str = OPERATE,
    is_dangerous: bool = False,
    deletes: bool = False,
) -> Action:
    return Action(
        name=name,
        title=title,
        heading=f"{title} {{}}",
        permission=permission,
        find=partial(find, effect=effect),
        do=do,
        back="slots",
        noun="slot",
        is_dangerous=is_dangerous,
        deletes=deletes,
    )


SLOT_ACTIONS = (
    _action("force-release", "Force release", _release_effect, _release, is_dangerous=True),
    _action("stop", "Stop", _stop_effect, _stop, is_dangerous=True),
    _action("recreate", "Recreate", _recreate_effect, _recreate, is_dangerous=True),
    _action("retry", "Retry", _retry_effect, _retry),
    _action("cordon", "Cordon", _cordon_effect, _cordon),
    _action("uncordon", "Uncordon", _uncordon_effect, _uncordon),
    _action(
        "delete",
        "Delete",
        _delete_effect,
        _delete,
        permission=ADMINISTER,
        is_dangerous=True,
        deletes=True,
    ),
)
