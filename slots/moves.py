"""The one statement that moves a slot from one status to another, with its history."""

from typing import Any

from core.correlation import current_correlation_id
from core.sql import fetch_one
from slots.deployment import DeploymentStatus
from slots.history import log_transition
from slots.models import Slot
from slots.status import MOVES, SlotStatus

# The slot moves only if it is still in the epoch in which the caller saw it, and from where the
# table of moves allows it; else no row comes back and nothing has changed. Once its stop is
# decided, its bot can come alive no more. Whoever moves it, the line bears the correlation id of
# the bot that it holds, or held last.
_MOVE = """
WITH moved AS (
    UPDATE slots_slot SET
        previous_status = status,
        previous_lasted = clock_timestamp() - status_since,
        status = %(to)s,
        status_since = clock_timestamp(),
        epoch = epoch + %(epochs)s,
        assigned_bot_id = CASE WHEN %(stays_held)s THEN assigned_bot_id END,
        last_released_at = CASE WHEN assigned_bot_id IS NOT NULL AND NOT %(stays_held)s
            THEN clock_timestamp() ELSE last_released_at END,
        recreate = %(recreate)s AND %(to)s <> 'idle',
        error = %(error)s,
        stop_asked_at = NULL,
        stop_attempts = 0,
        stopped_while_running = false,
        next_try_at = NULL,
        seen_gone_since = NULL,
        recovery_attempts = CASE WHEN %(to)s = 'busy' THEN 0
            WHEN status = 'error' THEN recovery_attempts + 1 ELSE recovery_attempts END
    WHERE id = %(slot)s AND epoch = %(epoch)s AND status = ANY(%(allowed_from)s)
        AND NOT (%(to)s = 'busy' AND stop_asked_at IS NOT NULL)
    RETURNING *
), deployment_ended AS (
    UPDATE slots_deployment SET
        status = %(deployment_ends_as)s,
        status_since = clock_timestamp(),
        ended_at = clock_timestamp(),
        coolify_ended_at = CASE WHEN %(to)s = 'busy'
            THEN coalesce(coolify_ended_at, clock_timestamp()) ELSE coolify_ended_at END,
        reason = %(reason)s
    WHERE slot_id = %(slot)s AND epoch = %(epoch)s AND ended_at IS NULL
        AND EXISTS (SELECT FROM moved)
), its_bot AS (
    SELECT id, correlation_id FROM bots_bot WHERE id = coalesce(%(bot)s, (
        SELECT bot_id FROM slots_deployment WHERE slot_id = %(slot)s ORDER BY id DESC LIMIT 1
    ))
)
INSERT INTO slots_slottransition (
    slot_id, slot_name, at, from_status, to_status, lasted, reason,
    bot_id, epoch, coolify_uuid, actor, correlation_id
)
SELECT
    id, name, status_since, previous_status, status, previous_lasted, %(reason)s,
    %(bot)s, epoch, coolify_uuid, %(actor)s,
    coalesce((SELECT correlation_id FROM its_bot), %(correlation_id)s)
FROM moved
RETURNING from_status, epoch, correlation_id, (SELECT id FROM its_bot)
"""


# A deployment ends with the move of its slot, and in no other way.
_DEPLOYMENT_ENDS_AS = {
    SlotStatus.BUSY: DeploymentStatus.FINISHED,
    SlotStatus.ERROR: DeploymentStatus.FAILED,
    SlotStatus.STOPPING: DeploymentStatus.CANCELLED,
    SlotStatus.IDLE: DeploymentStatus.CANCELLED,
}


def move_slot(
    slot: Slot,
    to: SlotStatus,
    *,
    reason: str,
    actor: str,
    error: str = "",
    recreate: bool = False,
    deployment_ends_as: DeploymentStatus | None = None,
    only_from: SlotStatus | None = None,
) -> bool:
    """Move the slot as it was read; False if it has moved on since, and then nothing changes.

    `only_from`: nor if it has another status, which it may have got within its epoch.
    """
    parameters = _parameters(slot, to, only_from=only_from) | {
        "reason": reason,
        "actor": actor,
        "correlation_id": current_correlation_id(),
        "error": error,
        "recreate": recreate or slot.recreate,
        "deployment_ends_as": deployment_ends_as or _DEPLOYMENT_ENDS_AS[to],
    }
    row = fetch_one(_MOVE, parameters)
    if row is None:
        return False
    from_status, epoch, correlation_id, of_bot = row
    log_transition(
        slot_name=slot.name,
        slot_id=slot.pk,
        from_status=from_status,
        to_status=to,
        bot_id=slot.assigned_bot_id,
        of_bot=of_bot,
        coolify_uuid=slot.coolify_uuid,
        epoch=epoch,
        reason=reason,
        correlation_id=correlation_id,
    )
    return True


def _parameters(slot: Slot, to: SlotStatus, *, only_from: SlotStatus | None) -> dict[str, Any]:
    allowed = [before for before, after in MOVES.items() if to in after]
    return {
        "slot": slot.pk,
        "epoch": slot.epoch,
        # Within an epoch the bot does not change, so the caller's reading of it is the truth.
        "bot": slot.assigned_bot_id,
        "to": to.value,
        "allowed_from": [each.value for each in allowed if only_from in (None, each)],
        "stays_held": to == SlotStatus.BUSY,
        "epochs": 0 if to in (SlotStatus.BUSY, SlotStatus.IDLE) else 1,
    }
