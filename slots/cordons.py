"""Cordons: a slot that is given to no further bot, until somebody takes the cordon away."""

from django.db import transaction

from queues.nudge import drain_after_commit
from slots.history import note
from slots.models import Slot


def cordon_slot(slot: Slot, *, reason: str, actor: str) -> bool:
    """False if it was cordoned before, or has moved on since it was read. Its bot stays in it."""
    return _set(slot, cordoned=True, words=f"Cordoned: {reason}", actor=actor)


def uncordon_slot(slot: Slot, *, reason: str, actor: str) -> bool:
    return _set(slot, cordoned=False, words=f"Uncordoned: {reason}", actor=actor)


def _set(slot: Slot, *, cordoned: bool, words: str, actor: str) -> bool:
    with transaction.atomic():
        as_read = Slot.objects.filter(pk=slot.pk, epoch=slot.epoch, status=slot.status)
        if not as_read.filter(cordoned=not cordoned).update(cordoned=cordoned, beyond_size=False):
            return False
        note(slot, words, actor=actor)
        drain_after_commit(slot.platform)
    slot.cordoned = cordoned
    return True
