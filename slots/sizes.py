"""The size of a pool, as operators set it."""

import logging

from django.db import transaction

from botpool.locks import DRAIN_QUEUE, GROW_POOL, advisory_lock
from queues.nudge import drain_after_commit
from slots.history import note
from slots.models import Pool, Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)


def set_pool_size(platform: str, size: int, *, reason: str, actor: str) -> bool:
    """False if that was its size.

    Slots beyond a smaller size are cordoned, idle ones first: no meeting is cut short, and each
    goes out of service when its bot leaves. A larger size takes these cordons away again, and no
    others.
    """
    with transaction.atomic():
        _lock_pool(platform)
        pool, _ = Pool.objects.select_for_update().get_or_create(platform=platform)
        if pool.max_size == size:
            return False
        Pool.objects.filter(pk=pool.pk).update(max_size=size)
        _fit_slots(platform, size, words=f"pool set to {size}: {reason}", actor=actor)
        drain_after_commit(platform)
    logger.info('[Pool] %s: size %s | actor=%s | reason="%s"', platform, size, actor, reason)
    return True


def refit_pool(platform: str, *, reason: str, actor: str) -> None:
    """A slot has left the pool: one that was beyond its size comes back into service."""
    with transaction.atomic():
        _lock_pool(platform)
        pool = Pool.objects.filter(platform=platform, max_size__isnull=False).first()
        if pool is not None and pool.max_size is not None:
            _fit_slots(platform, pool.max_size, words=reason, actor=actor)
            drain_after_commit(platform)


def _lock_pool(platform: str) -> None:
    """In the order of a drain, which holds a slot while it waits to grow the pool."""
    advisory_lock(DRAIN_QUEUE.format(platform=platform))
    advisory_lock(GROW_POOL.format(platform=platform))


def _fit_slots(platform: str, size: int, *, words: str, actor: str) -> None:
    slots = list(Slot.objects.select_for_update().filter(platform=platform).order_by("number"))
    within = [slot for slot in slots if not slot.beyond_size]
    surplus = len(within) - size
    in_service = [slot for slot in within if not slot.cordoned]
    # Idle ones first, then those with the highest numbers.
    in_service.sort(key=lambda slot: (slot.status != SlotStatus.IDLE, -slot.number))
    for slot in in_service[: max(0, surplus)]:
        Slot.objects.filter(pk=slot.pk).update(cordoned=True, beyond_size=True)
        note(slot, f"Cordoned, {words}", actor=actor)
    beyond = [slot for slot in slots if slot.beyond_size]
    for slot in beyond[: max(0, -surplus)]:
        Slot.objects.filter(pk=slot.pk).update(cordoned=False, beyond_size=False)
        note(slot, f"Uncordoned, {words}", actor=actor)
