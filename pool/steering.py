"""What operators set: the size of a pool, cordons on slots, pauses of platforms."""

import logging
from datetime import datetime

from django.db import transaction
from django.db.models.functions import Now

from bots.status import Platform
from core.locks import advisory_lock
from pool.capacity import paused_pools
from pool.drain import drain_after_commit
from pool.lock_names import DRAIN_QUEUE, GROW_POOL
from slots.history import note
from slots.models import Pool, Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

# --- Size --------------------------------------------------------------------------------------


def set_pool_size(platform: str, size: int, *, reason: str, actor: str) -> bool:
    """False if the pool already has that size.

    Slots beyond a smaller size are cordoned, idle ones first: no meeting is cut short, and each
    goes out of service when its bot leaves. A larger size removes these cordons, and no others.
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
    """After a slot has left the pool, return one that was beyond its size to service."""
    with transaction.atomic():
        _lock_pool(platform)
        pool = Pool.objects.filter(platform=platform, max_size__isnull=False).first()
        if pool is not None and pool.max_size is not None:
            _fit_slots(platform, pool.max_size, words=reason, actor=actor)
            drain_after_commit(platform)


def _lock_pool(platform: str) -> None:
    """Lock in the same order as a drain, to avoid a deadlock."""
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


# --- Cordons -----------------------------------------------------------------------------------


def cordon_slot(slot: Slot, *, reason: str, actor: str) -> bool:
    """False if it was already cordoned, or has moved on since it was read. Its bot stays."""
    return _set_cordon(slot, cordoned=True, words=f"Cordoned: {reason}", actor=actor)


def uncordon_slot(slot: Slot, *, reason: str, actor: str) -> bool:
    return _set_cordon(slot, cordoned=False, words=f"Uncordoned: {reason}", actor=actor)


def _set_cordon(slot: Slot, *, cordoned: bool, words: str, actor: str) -> bool:
    with transaction.atomic():
        as_read = Slot.objects.filter(pk=slot.pk, epoch=slot.epoch, status=slot.status)
        if not as_read.filter(cordoned=not cordoned).update(cordoned=cordoned, beyond_size=False):
            return False
        note(slot, words, actor=actor)
        drain_after_commit(slot.platform)
    slot.cordoned = cordoned
    return True


# --- Pauses ------------------------------------------------------------------------------------


def pause_platform(
    platform: str, *, reason: str, actor: str, until: datetime | None = None
) -> None:
    """Give out no slots until `until`, or until the platform is resumed."""
    Pool.objects.update_or_create(
        platform=platform,
        defaults={
            "paused_at": Now(),
            "paused_until": until,
            "paused_by": actor,
            "pause_reason": reason,
        },
    )
    _log_pause(platform, f"paused until {until or 'resumed'}", reason=reason, actor=actor)


def resume_platform(platform: str, *, reason: str, actor: str) -> bool:
    """End the pause; False if the platform was not paused."""
    with transaction.atomic():
        resumed = (
            paused_pools()
            .filter(platform=platform)
            .update(paused_at=None, paused_until=None, paused_by="", pause_reason="")
        )
        if resumed:
            drain_after_commit(platform)
            _log_pause(platform, "resumed", reason=reason, actor=actor)
    return bool(resumed)


def _log_pause(platform: str, what: str, *, reason: str, actor: str) -> None:
    name = Platform(platform).label
    fields = {"platform": platform, "what": what, "reason": reason, "actor": actor}
    line = f'[Queue] {name}: {what} | actor={actor} | reason="{reason}"'
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))
