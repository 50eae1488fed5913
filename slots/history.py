"""A slot's history: notes beside its moves, and one log line for each change."""

import logging

from django.db import transaction

from core.correlation import current_correlation_id
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
        f'coolify={t.coolify_uuid or "none"} | epoch={t.epoch} | reason="{t.reason}"'
    )
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))


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
