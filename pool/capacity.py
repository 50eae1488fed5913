"""How large a pool may be, whether there is room in it, and whether it is paused.

Each rule stands here once. The SQL conditions take the parameters of `opening_parameters`.
"""

from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from slots.models import Pool

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


POOL_SIZE = """
coalesce((SELECT max_size FROM slots_pool WHERE platform = %(platform)s), %(maximum)s)
"""

ROOM_TO_GROW = f"""
(SELECT count(*) FROM slots_slot WHERE platform = %(platform)s) < {POOL_SIZE}
"""  # noqa: S608 (nothing of this comes from outside)

# An idle slot, or room for one more. Only a hint: pool.claim makes sure.
SLOT_TO_BE_HAD = f"""
(
    EXISTS (
        SELECT FROM slots_slot
        WHERE platform = %(platform)s AND status = 'idle' AND NOT cordoned
    )
    OR {ROOM_TO_GROW}
)
"""


def opening_parameters(platform: str) -> dict[str, Any]:
    return {"platform": platform, "maximum": settings.MAX_POOL_SIZES[platform]}


# --- Pauses ------------------------------------------------------------------------------------

PAUSED = """
EXISTS (
    SELECT FROM slots_pool
    WHERE platform = %(platform)s AND paused_at IS NOT NULL
    AND (paused_until IS NULL OR paused_until > clock_timestamp())
)
"""


def paused_pools() -> QuerySet[Pool]:
    """The pools that are paused now. A pause that has come to its end is none."""
    not_over = Q(paused_until__isnull=True) | Q(paused_until__gt=Now())
    return Pool.objects.filter(not_over, paused_at__isnull=False)


def current_pause(platform: str) -> Pool | None:
    return paused_pools().filter(platform=platform).first()
