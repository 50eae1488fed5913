"""A slot's history in the log: one line for each change, once it is committed."""

import logging

from django.db import transaction

from core.correlation import current_correlation_id
from slots.models import Slot, SlotTransition

logger = logging.getLogger(__name__)


def log_transition(
    *,
    slot_name: str,
    slot_id: int,
    from_status: str,
    to_status: str,
    bot_id: int | None,
    coolify_uuid: str,
    epoch: int,
    reason: str,
    correlation_id: str,
    of_bot: int | None = None,
) -> None:
    """`of_bot`: whose story it is, also where the bot holds the slot no more."""
    fields = {
        "correlationId": correlation_id or None,
        "slot": slot_name,
        "slotId": slot_id,
        "from": from_status or None,
        "to": str(to_status),
        "bot": bot_id or of_bot,
        "coolify": coolify_uuid or None,
        "epoch": epoch,
        "reason": reason,
    }
    line = (
        f"[Pool] [corr={correlation_id or 'none'}] Slot {slot_name} ({slot_id}): "
        f"{from_status or 'new'} → {to_status} | bot={bot_id or 'none'} | "
        f'coolify={coolify_uuid or "none"} | epoch={epoch} | reason="{reason}"'
    )
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))


@transaction.atomic
def note(slot: Slot, reason: str, *, actor: str, coolify_uuid: str = "") -> None:
    """Write down something that happened to a slot without moving it. What is true of it in any
    epoch, such as its new application, is told of the slot as it is now: it may have moved on while
    Coolify was asked."""
    uuid = coolify_uuid or slot.coolify_uuid
    slot = Slot.objects.select_for_update().get(pk=slot.pk)
    correlation_id = _correlation_id(slot)
    SlotTransition.objects.create(
        slot=slot,
        slot_name=slot.name,
        from_status=slot.status,
        to_status=slot.status,
        reason=reason,
        bot_id=slot.assigned_bot_id,
        epoch=slot.epoch,
        coolify_uuid=uuid,
        actor=actor,
        correlation_id=correlation_id,
    )
    log_transition(
        slot_name=slot.name,
        slot_id=slot.pk,
        from_status=slot.status,
        to_status=slot.status,
        bot_id=slot.assigned_bot_id,
        coolify_uuid=uuid,
        epoch=slot.epoch,
        reason=reason,
        correlation_id=correlation_id,
    )


def _correlation_id(slot: Slot) -> str:
    """Whoever does it to a slot that a bot holds, it is part of that bot's story."""
    bot = slot.assigned_bot
    return current_correlation_id() if bot is None else bot.correlation_id
