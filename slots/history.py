"""A slot's history: notes beside its moves, and one log line for each change."""

import logging

from django.db import transaction
from django.utils import timezone

from core.correlation import current_correlation_id
from core.logs import quoted
from slots.deployment import Deployment
from slots.models import Slot, SlotTransition

logger = logging.getLogger(__name__)


def log_slot_transition(transition: SlotTransition, *, bot_id: int | None = None) -> None:
    """Write one log line, once the change is committed.

    `bot_id`: the bot whose history it belongs to, if that bot no longer holds the slot.
    """
    t = transition
    fields = {
        "correlationId": t.correlation_id or None,
        "slot": t.slot_name,
        "slotId": t.slot_id,
        "from": t.from_status or None,
        "to": str(t.to_status),
        "bot": t.bot_id or bot_id,
        "coolify": t.coolify_uuid or None,
        "epoch": t.epoch,
        "reason": t.reason,
    }
    line = (
        f"[Pool] [corr={t.correlation_id or 'none'}] Slot {t.slot_name} ({t.slot_id}): "
        f"{t.from_status or 'new'} → {t.to_status} | bot={t.bot_id or 'none'} | "
        f"coolify={t.coolify_uuid or 'none'} | epoch={t.epoch} | reason={quoted(t.reason)}"
    )
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))


def log_deployment(
    deployment: Deployment,
    *,
    to: str,
    reason: str,
    uuid: str | None = None,
    correlation_id: str = "",
) -> None:
    """Write one log line about a change of a deployment's status, once it is committed.

    `deployment` is as it was before; `uuid` is given if that changes, too.
    """
    before, uuid = deployment.status, deployment.deployment_uuid if uuid is None else uuid
    correlation_id = correlation_id or current_correlation_id()
    fields = {
        "correlationId": correlation_id or None,
        "slot": deployment.slot_name,
        "bot": deployment.bot_id,
        "deployment": uuid or None,
        "from": str(before),
        "to": str(to),
        "reason": reason,
    }
    line = (
        f"[Pool] [corr={correlation_id or 'none'}] {deployment}: {before} → {to} | "
        f"bot={deployment.bot_id} | deployment={uuid or 'none'} | reason={quoted(reason)}"
    )
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))


def log_release(slot: Slot, *, bot_status: str, reason: str) -> None:
    """Write one log line about a bot that has left its slot: its status now, and how long it had
    the slot."""
    began = slot.last_assigned_at
    held = max((timezone.now() - began).total_seconds(), 0.0) if began else None
    fields = {
        "correlationId": slot.correlation_id or None,
        "slot": slot.name,
        "bot": slot.assigned_bot_id,
        "botStatus": str(bot_status),
        "heldSeconds": None if held is None else round(held, 1),
        "coolify": slot.coolify_uuid or None,
        "reason": reason,
    }
    line = (
        f"[Pool] [corr={slot.correlation_id or 'none'}] Released bot #{slot.assigned_bot_id} from "
        f"slot {slot.name}: {bot_status} after {'?' if held is None else f'{held:.0f}'} s | "
        f"coolify={slot.coolify_uuid or 'none'} | reason={quoted(reason)}"
    )
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))


def log_recreation(slot: Slot, *, new_uuid: str) -> None:
    """Write one log line if the slot had an application before this one."""
    replaced = (SlotTransition.Kind.APPLICATION_DELETED, SlotTransition.Kind.APPLICATION_GONE)
    earlier = SlotTransition.objects.filter(slot=slot, kind__in=replaced).order_by("-pk").first()
    if earlier is None:
        return
    attempt = slot.recovery_attempts
    logger.info(
        "[Pool] [corr=%s] Slot %s: application recreated, %s → %s | recovery attempt %s",
        slot.correlation_id or "none",
        slot.name,
        earlier.coolify_uuid,
        new_uuid,
        attempt,
        extra={
            "fields": {
                "slot": slot.name,
                "oldCoolify": earlier.coolify_uuid,
                "coolify": new_uuid,
                "recoveryAttempt": attempt,
            }
        },
    )


@transaction.atomic
def note(
    slot: Slot,
    reason: str,
    *,
    actor: str,
    kind: SlotTransition.Kind = SlotTransition.Kind.NOTE,
    coolify_uuid: str = "",
) -> None:
    """Record something that happened to a slot without moving it.

    This reads the slot again: it may have moved on since the caller read it.
    """
    now = Slot.objects.select_for_update().get(pk=slot.pk)
    transition = SlotTransition(
        slot=now,
        slot_name=now.name,
        from_status=now.status,
        to_status=now.status,
        kind=kind,
        reason=reason,
        bot_id=now.assigned_bot_id,
        epoch=now.epoch,
        coolify_uuid=coolify_uuid or slot.coolify_uuid,
        actor=actor,
        correlation_id=now.correlation_id if now.assigned_bot_id else current_correlation_id(),
    )
    transition.save(force_insert=True)
    log_slot_transition(transition)
