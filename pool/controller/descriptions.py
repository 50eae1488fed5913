"""Descriptions: Coolify's own list shows each slot's state, in seconds while the budget allows."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import Q

from coolify.client import Coolify
from coolify.client.errors import BudgetExhausted, CoolifyError, NotFound
from coolify.description_text import names_a_bot
from core.clock import database_now
from pool.controller.context import SlotContext, pause_after_error
from slots.description import wanted_description
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

# A description that has been wrong for this long may name a bot that left: write it soon.
OVERDUE_AFTER = timedelta(minutes=1)


def describe(context: SlotContext) -> timedelta | None:
    """Write the slot's description if Coolify shows a different one; return when to try again."""
    slot = context.slot
    if not slot.coolify_uuid or wanted_description(slot) == slot.description_written:
        return None
    age = database_now() - slot.status_since
    if age < settings.DESCRIPTION_SETTLED_AFTER:
        # A state that may end soon is not worth a call.
        return settings.DESCRIPTION_SETTLED_AFTER - age
    try:
        update_slot_description(slot, context.coolify, overdue=_is_overdue(slot, age))
    except BudgetExhausted as error:
        logger.debug("The description of %s waits for the budget: %s", slot, error)
        return timedelta(seconds=max(error.retry_after or 0.0, 5.0))
    except NotFound:
        return None  # the reconciler handles applications that are gone
    except CoolifyError as error:
        logger.warning("The description of %s was not written: %s", slot, error)
        return pause_after_error(error, since=slot.status_since)
    return None


def _is_overdue(slot: Slot, age: timedelta) -> bool:
    """A start passes by itself: if the text before it names no bot, the next one is soon enough."""
    is_harmless = slot.status == SlotStatus.DEPLOYING and not names_a_bot(slot.description_written)
    return age > OVERDUE_AFTER and not is_harmless


def update_slot_description(slot: Slot, coolify: Coolify, *, overdue: bool = False) -> None:
    description = wanted_description(slot)
    coolify.update_application(slot.coolify_uuid, description=description, overdue=overdue)
    note_description(slot, description)


def note_description(slot: Slot, description: str) -> None:
    """Remember what Coolify shows, for the application that it was written to."""
    Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid).update(
        description_written=description
    )


def slots_with_another_description() -> list[Slot]:
    slots = Slot.objects.filter(~Q(coolify_uuid="")).order_by("status_since")
    return [slot for slot in slots if wanted_description(slot) != slot.description_written]


def sync_descriptions(coolify: Coolify) -> list[Slot]:
    """Write all descriptions that differ, for `manage.py sync_descriptions`; stop when the budget
    refuses a call."""
    written = []
    for slot in slots_with_another_description():
        try:
            update_slot_description(slot, coolify)
        except BudgetExhausted as error:
            logger.debug("Descriptions wait for the budget: %s", error)
            break
        except NotFound:
            continue  # the reconciler handles applications that are gone
        except CoolifyError as error:
            logger.warning("The description of %s was not written: %s", slot, error)
            break
        written.append(slot)
    return written
