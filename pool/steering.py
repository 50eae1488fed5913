"""What operators set: the size of a pool, cordons on slots, pauses of platforms and of calls."""

import logging
from datetime import datetime

from django.db import transaction
from django.db.models.functions import Now

from bots.status import Platform
from coolify.budget.access import allow_access
from coolify.budget.lift import lift_pause, probe_now
from core.logs import quoted
from pool.capacity import paused_pools, pool_sizes
from pool.drain import drain_after_commit
from pool.sizes import fit_slots, lock_pool
from slots.deployment import ACTIVE, Deployment
from slots.history import note
from slots.locks import wake_slots
from slots.models import Pool, Slot

logger = logging.getLogger(__name__)

# --- Size --------------------------------------------------------------------------------------


def set_pool_size(platform: str, size: int | None, *, reason: str, actor: str) -> bool:
    """False if the pool already has that size. None: as the environment says.

    Slots beyond a smaller size are cordoned; a larger size removes these cordons, and no others.
    """
    with transaction.atomic():
        lock_pool(platform)
        pool, _ = Pool.objects.select_for_update().get_or_create(platform=platform)
        if pool.max_size == size:
            return False
        Pool.objects.filter(pk=pool.pk).update(max_size=size)
        words = f"pool set to {size}" if size is not None else "pool returned to MAX_POOL_SIZE"
        fit_slots(platform, words=f"{words}: {reason}", actor=actor)
        drain_after_commit(platform)
    logger.info("[Pool] %s: %s | actor=%s | reason=%s", platform, words, actor, quoted(reason))
    return True


def refit_pool(platform: str, *, reason: str, actor: str) -> None:
    """After a slot has left the pool, return one that was beyond its size to service."""
    with transaction.atomic():
        if fit_slots(platform, words=reason, actor=actor):
            drain_after_commit(platform)


def fit_pools() -> None:
    """Periodic work: fit the slots to sizes that changed in the environment."""
    fitted = dict(Pool.objects.values_list("platform", "fitted_size"))
    for platform, size in pool_sizes().items():
        if fitted.get(platform) != size:
            words = f"the pool's size is {size} (MAX_POOL_SIZE)"
            refit_pool(platform, reason=words, actor="settings")


# --- Cordons -----------------------------------------------------------------------------------


def cordon_slot(slot: Slot, *, reason: str, actor: str) -> bool:
    """False if it was already cordoned, or has moved on since it was read. Its bot stays."""
    return _set_cordon(slot, cordoned=True, words=f"Cordoned: {reason}", actor=actor)


def uncordon_slot(slot: Slot, *, reason: str, actor: str) -> bool:
    """False for a slot beyond the pool's size, too: only a larger size brings it back."""
    if slot.beyond_size:
        return False
    return _set_cordon(slot, cordoned=False, words=f"Uncordoned: {reason}", actor=actor)


def _set_cordon(slot: Slot, *, cordoned: bool, words: str, actor: str) -> bool:
    with transaction.atomic():
        as_read = Slot.objects.filter(pk=slot.pk, epoch=slot.epoch, status=slot.status)
        if not as_read.filter(cordoned=not cordoned, beyond_size=False).update(
            cordoned=cordoned, quarantined=False
        ):
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
    line = f"[Queue] {name}: {what} | actor={actor} | reason={quoted(reason)}"
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))


# --- Calls to Coolify --------------------------------------------------------------------------


def resume_calls(*, is_circuit: bool, reason: str, actor: str) -> bool:
    """End the pause of calls, or probe Coolify through its open circuit; False if there is none.

    Slots that were told to wait for the end of the pause take their next step now.
    """
    with transaction.atomic():
        if not (probe_now() if is_circuit else lift_pause()):
            return False
        _let_slots_go_on()
    what = "probe of Coolify" if is_circuit else "pause of calls lifted"
    logger.info("[Pool] Coolify: %s | actor=%s | reason=%s", what, actor, quoted(reason))
    return True


def try_access_again(*, reason: str, actor: str) -> bool:
    """Send calls again that Coolify refused to our token; False if it refused none."""
    with transaction.atomic():
        if not allow_access():
            return False
        _let_slots_go_on()
    logger.info('[Pool] Coolify: access tried again | actor=%s | reason="%s"', actor, reason)
    return True


def _let_slots_go_on() -> None:
    waiting = Deployment.objects.filter(next_try_at__gt=Now(), status__in=ACTIVE)
    slots = Slot.objects.filter(next_try_at__gt=Now())
    wake_slots([*waiting.values_list("slot_id", flat=True), *slots.values_list("pk", flat=True)])
    waiting.update(next_try_at=Now())
    slots.update(next_try_at=Now())
