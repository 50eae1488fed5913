"""Slots beyond the size of their pool: out of service, until the pool grows again."""

from django.db import transaction
from django.db.models import Exists, IntegerField
from django.db.models.functions import Coalesce

from core.locks import advisory_lock
from pool.capacity import pool_size
from pool.lock_names import DRAIN_QUEUE, GROW_POOL
from slots.history import note
from slots.models import Pool, Slot
from slots.status import SlotStatus


def slots_fit(platform: str, size: int) -> Exists:
    """A filter: no slot is given out while the slots do not fit a size that was lowered.

    `size` is the environment's, for a pool whose size no operator has set.
    """
    current = Coalesce("max_size", size, output_field=IntegerField())
    return Exists(Pool.objects.filter(platform=platform, fitted_size__lte=current))


def fit_if_too_large(pool: Pool) -> bool:
    """Take slots out of service if the size was lowered, as in the environment; False if it was
    not. Claims rely on it: the next periodic pass may come too late."""
    size = pool_size(pool.platform, pool)
    if pool.fitted_size is not None and pool.fitted_size <= size:
        return False
    words = f"the pool's size is {size} (MAX_POOL_SIZE)"
    fit_slots(pool.platform, words=words, actor="settings")
    return True


@transaction.atomic
def fit_slots(platform: str, *, words: str, actor: str) -> bool:
    """Cordon the slots beyond the pool's size, idle ones first, or remove such cordons; False if
    they fit. No meeting is cut short: a held slot goes out of service when its bot leaves."""
    lock_pool(platform)
    pool, _ = Pool.objects.select_for_update().get_or_create(platform=platform)
    size = pool_size(platform, pool)
    Pool.objects.filter(pk=pool.pk).update(fitted_size=size)
    slots = list(Slot.objects.select_for_update().filter(platform=platform).order_by("number"))
    within = [slot for slot in slots if not slot.beyond_size]
    surplus = len(within) - size
    in_service = [slot for slot in within if not slot.cordoned]
    # Idle ones first, then those with the highest numbers.
    in_service.sort(key=lambda slot: (slot.status != SlotStatus.IDLE, -slot.number))
    leaving = in_service[: max(0, surplus)]
    coming_back = [slot for slot in slots if slot.beyond_size][: max(0, -surplus)]
    for slot in leaving:
        Slot.objects.filter(pk=slot.pk).update(cordoned=True, beyond_size=True)
        note(slot, f"Cordoned, {words}", actor=actor)
    for slot in coming_back:
        Slot.objects.filter(pk=slot.pk).update(cordoned=False, beyond_size=False)
        note(slot, f"Uncordoned, {words}", actor=actor)
    return bool(leaving or coming_back)


def lock_pool(platform: str) -> None:
    """Lock in the same order as a drain, to avoid a deadlock."""
    advisory_lock(DRAIN_QUEUE.format(platform=platform))
    advisory_lock(GROW_POOL.format(platform=platform))
