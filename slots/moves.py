"""The one door through which a slot changes its status, and its deployment with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce, Now

from bots.status import FailureCause
from core.correlation import current_correlation_id
from core.prepared import update_returning, update_rows
from slots.deployment import Deployment, DeploymentStatus
from slots.history import log_deployment, log_slot_transition
from slots.models import Slot, SlotTransition
from slots.status import MOVES, SlotStatus

NOW = Now()
STATUS_LASTED = Now() - F("status_since")
OLD_STATUS = F("status")
ONE_MORE_RECOVERY = F("recovery_attempts") + 1
ENDED_IN_COOLIFY = Coalesce("coolify_ended_at", Now())

# A stop belongs to the status in which it was asked for.
NO_STOP_UNDER_WAY = {
    "stop_asked_at": None,
    "stop_attempts": 0,
    "stopped_while_running": False,
    "docker_asked_at": None,
    "stop_refused_at": None,
    "next_try_at": None,
}

# A deployment ends only with a move of its slot.
_DEPLOYMENT_ENDS_AS = {
    SlotStatus.BUSY: DeploymentStatus.FINISHED,
    SlotStatus.ERROR: DeploymentStatus.FAILED,
    SlotStatus.STOPPING: DeploymentStatus.CANCELLED,
}


@dataclass(frozen=True, kw_only=True)
class SlotMove:
    """A slot's next status, with reason and actor. `cause` is set if its deployment failed."""

    to: SlotStatus
    reason: str
    actor: str
    cause: FailureCause | None = None
    recreate: bool = False

    @property
    def starts_an_epoch(self) -> bool:
        return self.to not in (SlotStatus.BUSY, SlotStatus.IDLE)

    @property
    def deployment_ends_as(self) -> DeploymentStatus:
        if self.cause == FailureCause.START_TIMED_OUT:
            return DeploymentStatus.TIMED_OUT
        return DeploymentStatus.FAILED if self.cause else _DEPLOYMENT_ENDS_AS[self.to]


def move_slot(slot: Slot, move: SlotMove, *, only_as_read: bool = False) -> bool:
    """Move the slot; False, and nothing changes, if it has moved on since it was read.

    A slot that was read as `deploying` may have become busy within its epoch. That does not prevent
    the move, unless `only_as_read`.
    """
    for status in _may_be_by_now(slot, only_as_read=only_as_read):
        if move.to in MOVES[status] and _move(slot, status, move):
            return True
    return False


def _may_be_by_now(slot: Slot, *, only_as_read: bool) -> Iterator[SlotStatus]:
    yield SlotStatus(slot.status)
    if slot.status == SlotStatus.DEPLOYING and not only_as_read:
        yield SlotStatus.BUSY


def _move(slot: Slot, status: SlotStatus, move: SlotMove) -> bool:
    epoch = slot.epoch + move.starts_an_epoch
    # Within an epoch the bot does not change, so the caller's values are still true.
    correlation_id = slot.correlation_id or current_correlation_id()
    moved = update_rows(
        Slot,
        {"id": slot.pk, "epoch": slot.epoch, "status": status},
        previous_status=status,
        previous_lasted=STATUS_LASTED,
        status=move.to,
        status_since=NOW,
        status_reason=move.reason,
        status_actor=move.actor,
        correlation_id=correlation_id,
        epoch=epoch,
        recreate=(move.recreate or slot.recreate) and move.to != SlotStatus.IDLE,
        error=move.reason if move.cause or move.to == SlotStatus.ERROR else "",
        **NO_STOP_UNDER_WAY,
        **_assignment(slot, move),
        **_recovery(status, move),
    )
    if not moved:
        return False
    if status == SlotStatus.DEPLOYING:
        _end_deployment(slot, move)
    log_slot_transition(
        SlotTransition(
            slot_id=slot.pk,
            slot_name=slot.name,
            from_status=status,
            to_status=move.to,
            reason=move.reason,
            bot_id=slot.assigned_bot_id,
            epoch=epoch,
            coolify_uuid=slot.coolify_uuid,
            correlation_id=correlation_id,
        ),
        bot_id=slot.last_bot_id,
    )
    return True


def _assignment(slot: Slot, move: SlotMove) -> dict[str, Any]:
    if move.to == SlotStatus.BUSY:
        return {}
    released = {"last_released_at": NOW, "last_used_at": NOW}
    return {"assigned_bot": None, **(released if slot.assigned_bot_id is not None else {})}


def _recovery(status: SlotStatus, move: SlotMove) -> dict[str, Any]:
    if move.to == SlotStatus.BUSY:
        return {"recovery_attempts": 0}
    is_retry = status == SlotStatus.ERROR
    return {"recovery_attempts": ONE_MORE_RECOVERY} if is_retry else {}


def _end_deployment(slot: Slot, move: SlotMove) -> None:
    # An epoch has one deployment, and it has not ended before its slot moves.
    runs = {"coolify_ended_at": ENDED_IN_COOLIFY}
    ended = update_returning(
        Deployment,
        {"slot": slot.pk, "epoch": slot.epoch, "ended_at": None},
        columns=("id", "bot_id", "ended_from", "deployment_uuid"),
        ended_from=OLD_STATUS,
        status=move.deployment_ends_as,
        status_since=NOW,
        ended_at=NOW,
        reason=move.reason,
        failure_cause=move.cause or "",
        **(runs if move.to == SlotStatus.BUSY else {}),
    )
    if ended is not None:
        number, bot, before, uuid = ended
        deployment = Deployment(
            pk=number, bot_id=bot, slot_name=slot.name, status=before, deployment_uuid=uuid
        )
        log_deployment(
            deployment,
            to=move.deployment_ends_as,
            reason=move.reason,
            correlation_id=slot.correlation_id,
        )
