"""Deleting an unused slot together with its application."""

from coolify.client import Coolify
from pool.controller.applications import delete_application
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
        return "Coolify is still pulling an image for it"
    return ""


def delete_slot(slot: Slot, *, reason: str, actor: str, coolify: Coolify) -> bool:
    """Delete the slot; False, and nothing is deleted, if it has moved on since it was read.

    It is cordoned first, so no bot gets it while Coolify is called. After CoolifyError or
    LeaseNotAcquired it stays cordoned, and you can try again.
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
        if slot.coolify_uuid:
            delete_application(slot, coolify)
        with lease.fenced():
            note(slot, f"Deleted: {reason}", actor=actor)
            deleted = bool(as_read.delete()[0])
    if deleted:
        refit_pool(slot.platform, reason=f"{slot} was deleted", actor=actor)
    return deleted
