"""Is the container gone? Coolify writes `exited` after every stop, even if Docker refused it.

So `exited` needs a second piece of evidence, and any of these will do:

- The bot knows that its assignment is over: it ended by itself, or was told to leave. A bot asks
  before it joins a meeting, so it does no harm even if Docker starts it again.
- Docker says so. Coolify answers a request for the log with what Docker says at that moment.
- `exited` lasts for longer than statuses can be out of date, and the container is silent.

A call of the container after that disproves it. docs/architecture.md has the reasoning.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models.functions import Now

from coolify.client.errors import BudgetExhausted, CoolifyError
from core.clock import database_now
from pool.controller.context import SlotContext
from pool.lifecycle import recover_slot
from slots.models import Slot
from slots.status import HELD, ContainerStatus

logger = logging.getLogger(__name__)

EXITED = ("exited", "stopped")
UP = (ContainerStatus.RUNNING, ContainerStatus.CRASHING)
# An idle slot whose former container calls: at most one question to Docker in this time.
ASK_DOCKER_AGAIN = timedelta(minutes=1)


def is_gone(context: SlotContext) -> bool:
    """Judged by the last observation, if that can show what the stop did."""
    slot, observed_at = context.slot, context.observed_at
    if observed_at is None or slot.stop_asked_at is None:
        return False
    if observed_at <= max(slot.stop_asked_at, slot.status_has_settled_at):
        return False
    if slot.application_missing:
        context.coolify.application(slot.coolify_uuid)  # NotFound, if it is really gone
        return False
    if slot.server_unreachable or slot.container_status == ContainerStatus.DEPLOYING:
        return False
    if slot.application_state not in EXITED or slot.stop_refused_at is not None:
        return False
    if _was_seen_stopping(slot):
        if _called_since(slot, observed_at):
            _note_refusal(slot, "its container still calls")
            return False
        if _knows_its_end(slot) or _docker_says_it_is_gone(context):
            return True
    return _has_lasted(context)


def still_runs(context: SlotContext) -> bool:
    """A stop is repeated only if there is evidence, well after it, that the container runs."""
    slot, observed_at = context.slot, context.observed_at
    if observed_at is None or slot.stop_asked_at is None or slot.server_unreachable:
        return False
    late = observed_at - slot.stop_asked_at > settings.STOP_RETRY_AFTER
    return late and (slot.stop_refused_at is not None or slot.container_status in UP)


def check_idle(context: SlotContext) -> None:
    """Stop the container of an idle slot, if it calls and Docker says that it runs."""
    slot = context.slot
    called, asked = slot.late_call_at, slot.docker_asked_at
    if called is None or called <= slot.status_since or not slot.coolify_uuid:
        return
    if asked is not None and called - asked < ASK_DOCKER_AGAIN:
        return
    if _ask_docker(context):
        reason = "Its last container still runs: it called, and was told to leave"
        recover_slot(slot, reason=reason, actor=context.actor)


# --- Parts of the above -----------------------------------------------------------------------


def _was_seen_stopping(slot: Slot) -> bool:
    """It ran, and was observed exited after its first stop. Otherwise `exited` may be out of date,
    or the answer to an earlier stop, and a stop may still wait in Coolify's queue."""
    return slot.stopped_while_running and slot.stop_attempts == 1


def _called_since(slot: Slot, observed_at: datetime) -> bool:
    """Whether the container called after it was observed exited. A bot may call while it stops."""
    seen, asked = slot.container_seen_at, slot.stop_asked_at
    first_seen = seen if seen is not None and asked is not None and seen > asked else observed_at
    return slot.late_call_at is not None and slot.late_call_at > first_seen


def _knows_its_end(slot: Slot) -> bool:
    return slot.previous_status in HELD and slot.told_epoch == slot.epoch - 1


def _docker_says_it_is_gone(context: SlotContext) -> bool:
    """Asked once for each stop. No answer is no evidence."""
    slot = context.slot
    if slot.docker_asked_at is not None:
        return False
    runs = _ask_docker(context)
    if runs:
        _note_refusal(slot, "Docker says that its container runs")
    return runs is False


def _ask_docker(context: SlotContext) -> bool | None:
    """None if there is no answer."""
    slot, runs = context.slot, None
    context.lease.check()
    try:
        runs = context.coolify.container_runs(slot.coolify_uuid)
    except BudgetExhausted:
        return None  # it was not sent: ask again at the next observation
    except CoolifyError as error:
        logger.info("[Pool] %s: Docker could not be asked about its container: %s", slot, error)
    Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(docker_asked_at=Now())
    return runs


def _note_refusal(slot: Slot, why: str) -> None:
    logger.warning("[Pool] %s was not stopped, although Coolify says so: %s", slot, why)
    now = database_now()
    Slot.objects.filter(pk=slot.pk, epoch=slot.epoch).update(stop_refused_at=now)
    slot.stop_refused_at = now


def _has_lasted(context: SlotContext) -> bool:
    slot, observed_at = context.slot, context.observed_at
    assert observed_at is not None
    assert slot.stop_asked_at is not None
    if slot.stop_refused_at is not None:
        return False
    since = max(slot.stop_asked_at, slot.late_call_at or slot.stop_asked_at)
    lasted: timedelta = observed_at - since
    return lasted >= settings.STOP_CONFIRM_AFTER
