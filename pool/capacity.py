"""How large a pool may be, whether there is room in it, whether it is paused: each rule once."""

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from slots.models import Pool, Slot
from slots.status import SlotStatus

# --- The size ----------------------------------------------------------------------------------


def pool_size(platform: str, pool: Pool | None = None) -> int:
    """The most slots a platform may have: what operators set, else the environment's value."""
    if pool is not None and pool.max_size is not None:
        return pool.max_size
    size: int = settings.MAX_POOL_SIZES[platform]
    return size


def pool_sizes() -> dict[str, int]:
    """Of all platforms, in one query."""
    set_by_operators = Pool.objects.in_bulk()
    return {p: pool_size(p, set_by_operators.get(p)) for p in settings.MAX_POOL_SIZES}


def has_room(platform: str) -> bool:
    """Whether the pool may grow by one. Hold the lock GROW_POOL to rely on it."""
    size = pool_size(platform, Pool.objects.filter(platform=platform).first())
    return Slot.objects.filter(platform=platform).count() < size


def idle_slots(platform: str) -> QuerySet[Slot]:
    """The slots that a bot may get."""
    return Slot.objects.filter(platform=platform, status=SlotStatus.IDLE, cordoned=False)


def has_opening(platform: str) -> bool:
    """Whether a bot could get a slot now. Only a hint: the claim makes sure."""
    return idle_slots(platform).exists() or has_room(platform)


# --- Pauses ------------------------------------------------------------------------------------


def paused_pools() -> QuerySet[Pool]:
    """The pools that are paused now; an expired pause does not count."""
    not_over = Q(paused_until__isnull=True) | Q(paused_until__gt=Now())
    return Pool.objects.filter(not_over, paused_at__isnull=False)


def current_pause(platform: str) -> Pool | None:
    return paused_pools().filter(platform=platform).first()
