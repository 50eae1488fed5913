"""Taking a slot that nobody uses out of the pool for good, together with its application."""

from contextlib import suppress

from coolify.client import Coolify
from coolify.client.errors import NotFound
from pool.steering import cordon_slot, refit_pool
from slots.deployment import Deployment
from slots.history import note
from slots.locks import with_status_lock
from slots.models import Slot
from slots.status import SlotStatus

DELETABLE = (SlotStatus.IDLE, SlotStatus.ERROR)


def why_not_to_delete(slot: Slot) -> str:
    if slot.status not in DELETABLE:
        return f"it is {slot.status}: only an idle slot or one in error can be deleted"
    if Deployment.objects.filter(slot=slot, pulling=True).exists():
        return "Coolify still pulls an image for it"
    return ""


def delete_slot(slot: Slot, *, reason: str, actor: str, coolify: Coolify) -> bool:
    """False if it has moved on since it was read, and then nothing is deleted.

    It is cordoned first, so that no bot gets it while Coolify is asked. Raises CoolifyError or
    LeaseNotAcquired: the slot stays, cordoned, and this can be tried again.
    """
    if why_not_to_delete(slot):
        return False
    if not slot.cordoned and not cordon_slot(slot, reason=f"To be deleted: {reason}", actor=actor):
        return False
    with with_status_lock(slot) as lease:
        as_read = Slot.objects.filter(
            pk=slot.pk, epoch=slot.epoch, status__in=DELETABLE, cordoned=True
        )
        if not as_read.exists():
            return False
        _delete_application(slot, coolify)
        with lease.fenced():
            note(slot, f"Deleted: {reason}", actor=actor)
            deleted = bool(as_read.delete()[0])
    if deleted:
        refit_pool(slot.platform, reason=f"{slot} was deleted", actor=actor)
    return deleted


def _delete_application(slot: Slot, coolify: Coolify) -> None:
    if not slot.coolify_uuid:
        return
    with suppress(NotFound):  # somebody deleted it in Coolify: all the better
        coolify.delete_application(slot.coolify_uuid)
