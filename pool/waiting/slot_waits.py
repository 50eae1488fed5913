"""Why a slot is as it is and what comes next, one sentence each."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from coolify.budget.report import BudgetReport, budget_report
from core.clock import database_now
from pool.lifecycle import recovers_at
from pool.waiting.waiting_for import each_start_waits_for, waiting_for
from pool.waiting.words import time_of
from slots.models import Slot, SlotTransition
from slots.status import SlotStatus


@dataclass(frozen=True)
class SlotOutlook:
    why: str
    next_step: str


def slot_outlook(slot: Slot) -> SlotOutlook:
    """Of a slot read with its bot."""
    match slot.status:
        case SlotStatus.DEPLOYING:
            return _deploying(slot)
        case SlotStatus.BUSY:
            return _busy(slot)
        case SlotStatus.STOPPING:
            return SlotOutlook(_last_reason(slot), _stop(slot, database_now(), budget_report()))
        case SlotStatus.ERROR:
            return SlotOutlook(_last_reason(slot), _after_error(slot))
    return SlotOutlook(_last_reason(slot), _idle(slot))


def what_slots_wait_for(slots: Iterable[Slot]) -> dict[int, str]:
    """One sentence for each slot that starts, stops or failed, by id. The number of queries does
    not grow with theirs."""
    slots = list(slots)
    starts = each_start_waits_for(
        slot.assigned_bot_id
        for slot in slots
        if slot.status == SlotStatus.DEPLOYING and slot.assigned_bot_id is not None
    )
    told = {
        slot.pk: starts[slot.assigned_bot_id].message
        for slot in slots
        if slot.assigned_bot_id in starts
    }
    told |= {slot.pk: _after_error(slot) for slot in slots if slot.status == SlotStatus.ERROR}
    stopping = [slot for slot in slots if slot.status == SlotStatus.STOPPING]
    if stopping:
        now, budget = database_now(), budget_report()
        told |= {slot.pk: _stop(slot, now, budget) for slot in stopping}
    return told


def _last_reason(slot: Slot) -> str:
    moves = SlotTransition.objects.filter(slot=slot, kind=SlotTransition.Kind.MOVE)
    last = moves.order_by("-pk").first()
    return last.reason if last else "Not used yet."


def _idle(slot: Slot) -> str:
    if slot.beyond_size:
        return "Beyond the pool's size: it gets no bot until the pool is made larger."
    if slot.quarantined:
        return "Quarantined after repeated failures: it gets no bot until it is uncordoned."
    if slot.cordoned:
        return "Cordoned: it gets no bot until it is uncordoned."
    return "Ready for the next bot of its platform."


# --- A slot with a bot ------------------------------------------------------------------------


def _deploying(slot: Slot) -> SlotOutlook:
    waiting = waiting_for(slot.assigned_bot) if slot.assigned_bot is not None else None
    why = waiting.message if waiting else _last_reason(slot)
    return SlotOutlook(why, "Once the container runs, the slot is busy.")


def _busy(slot: Slot) -> SlotOutlook:
    bot = slot.assigned_bot
    waiting = waiting_for(bot) if bot is not None else None
    if waiting is not None:
        why = waiting.message
    elif bot is not None:
        why = f"Bot #{bot.pk} has been in its call since {time_of(bot.status_since)}."
    else:
        why = _last_reason(slot)
    return SlotOutlook(why, "When the bot ends, its container is stopped.")


# --- Stopping ---------------------------------------------------------------------------------


def _stop(slot: Slot, now: datetime, budget: BudgetReport) -> str:
    then = " Then its application is replaced." if slot.recreate else " Then the slot is idle."
    if budget.circuit != "closed":
        since = f" since {time_of(budget.circuit_since)}" if budget.circuit_since else ""
        return f"Coolify has not answered{since}; {_again(budget.circuit_until, now)}.{then}"
    if slot.next_try_at is not None and slot.next_try_at > now:
        return f"The stop is tried again at {time_of(slot.next_try_at)}.{then}"
    if slot.server_unreachable and not slot.application_missing:
        return f"Coolify is asked to stop the container once it can reach the server.{then}"
    if slot.stop_asked_at is None:
        return f"Coolify is about to be asked to stop the container.{then}"
    return f"{_asked(slot, slot.stop_asked_at)}; {_to_be_seen(slot, slot.stop_asked_at)}.{then}"


def _again(until: datetime | None, now: datetime) -> str:
    if until is None or until <= now:
        return "it is being tried again"
    return f"it is tried again at {time_of(until)}"


def _asked(slot: Slot, asked_at: datetime) -> str:
    attempts = slot.stop_attempts
    times = f", {attempts} of at most {settings.STOP_MAX_ATTEMPTS} times" if attempts > 1 else ""
    return f"Coolify was asked to stop the container at {time_of(asked_at)}{times}"


def _to_be_seen(slot: Slot, asked_at: datetime) -> str:
    if slot.stop_refused_at is not None:
        again = time_of(asked_at + settings.STOP_RETRY_AFTER)
        return (
            f"it still runs, so Coolify is asked again after {again}. No bot gets the slot before"
        )
    earliest = slot.status_has_settled_at
    if not (slot.stopped_while_running and slot.stop_attempts == 1):
        # `exited` may be an old reading: it was not seen running, or was stopped before.
        earliest = max(earliest, asked_at + settings.STOP_CONFIRM_AFTER)
    if earliest <= asked_at:
        return "the next observation has to show it as gone"
    return f"an observation after {time_of(earliest)} has to show it as gone"


# --- Error ------------------------------------------------------------------------------------


def _after_error(slot: Slot) -> str:
    attempts, limit = slot.recovery_attempts, settings.RECOVERY_ATTEMPTS
    due = recovers_at(slot)
    if due is None:
        return (
            "It gets no bot, and no further recovery is tried: retry, recreate or delete it, "
            "once the cause is gone."
        )
    how = "recovered with a new application" if attempts else "recovered"
    if slot.server_unreachable:
        return f"It gets no bot. It is {how} once Coolify reaches its server again."
    return (
        f"It gets no bot. It is {how} from {time_of(due)} on (attempt {attempts + 1} of {limit})."
    )
