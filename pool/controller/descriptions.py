"""The slot's state as Coolify's own list shows it: only the newest text, and only if it differs."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import Q

from coolify.client import Coolify
from coolify.client.errors import BudgetExhausted, CoolifyError, NotFound
from coolify.shared import shared_coolify
from core.clock import database_now
from slots.description import wanted_description
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)


# A container in a meeting must not be called available for long.
WRITTEN_SOON = (SlotStatus.BUSY, SlotStatus.ERROR)
# States that pass by themselves are told of only if they last, as a cold start does.
WRITTEN_LATE = (SlotStatus.DEPLOYING, SlotStatus.STOPPING)


def slots_with_another_description(*, settled_for: timedelta) -> list[Slot]:
    """Slots whose state has lasted a while and is not what Coolify shows.

    A state that is soon over is not worth a call: the text would be outdated on arrival.
    """
    now = database_now()
    settled = Slot.objects.filter(
        Q(status=SlotStatus.IDLE, status_since__lt=now - settled_for)
        | Q(status__in=WRITTEN_SOON, status_since__lt=now - settled_for / 4)
        | Q(status__in=WRITTEN_LATE, status_since__lt=now - settled_for * 4),
        ~Q(coolify_uuid=""),
    ).order_by("status_since")
    return [slot for slot in settled if wanted_description(slot) != slot.description_written]


def sync_descriptions(coolify: Coolify, *, settled_for: timedelta) -> list[Slot]:
    """Write the texts that differ; stop without complaint when the budget has other uses."""
    written = []
    for slot in slots_with_another_description(settled_for=settled_for):
        try:
            write_description(slot, coolify)
        except BudgetExhausted as error:
            logger.debug("Descriptions wait for the budget: %s", error)
            break
        except NotFound:
            continue  # the reconciler looks after applications that are gone
        except CoolifyError as error:
            logger.warning("The description of %s was not written: %s", slot, error)
            break
        written.append(slot)
    return written


def write_description(slot: Slot, coolify: Coolify) -> None:
    description = wanted_description(slot)
    coolify.update_application(slot.coolify_uuid, description=description)
    note_description(slot, description)


def note_description(slot: Slot, description: str) -> None:
    """Remember what Coolify shows, for the application that it was written to."""
    Slot.objects.filter(pk=slot.pk, coolify_uuid=slot.coolify_uuid).update(
        description_written=description
    )


def write_settled_descriptions() -> None:
    sync_descriptions(shared_coolify(), settled_for=settings.DESCRIPTION_SETTLED_AFTER)
