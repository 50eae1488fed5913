"""Finding a slot for a bot: an idle one, else a new one, else none.

Idle slots on healthy servers that have the image come first, then those on other healthy servers,
then those on degraded ones; of equals, the least recently used one. One whose application Coolify
does not list comes last, after a new slot: it may need an operator first.

This only locks or makes the slot's row; pool.assign gives it to the bot.
"""

from datetime import datetime
from itertools import count
from typing import Any

from django.conf import settings
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.utils import timezone

from bots.models import Bot
from core.locks import advisory_lock
from core.prepared import Prepared
from pool.capacity import (
    WITHOUT_A_PLACE,
    idle_slots,
    may_grow,
    pool_size,
    read_pool,
    server_for_new_slot,
)
from pool.images.in_use import servers_with_image
from pool.lock_names import GROW_POOL, PLACE_SLOT
from pool.sizes import fit_if_too_large, slots_fit
from servers.health import ServerState
from servers.models import Server
from slots.models import Pool, Slot
from slots.status import SlotStatus

LEAST_RECENTLY_USED = F("last_used_at").asc(nulls_first=True), F("number").asc()
IS_WORSE = Q(server_uuid__in=Server.objects.exclude(state=ServerState.HEALTHY).values("uuid"))


def acquire_or_create_slot(bot: Bot) -> Slot | None:
    """Lock an idle slot of the platform, or make one if the pool has room.

    None means that the pool is full, or that no server takes bots.
    """
    platform = bot.platform
    slot = _lock_idle(platform)
    if _is_listed(slot):
        return slot
    pool = read_pool(platform)
    if fit_if_too_large(pool):
        slot = _lock_idle(platform)
    if not _is_listed(slot) and _lock_growth(pool):
        # Try again and wait for locks: a slot that another transaction holds for a moment is no
        # reason to grow.
        in_order = _in_order(platform, settings.MAX_POOL_SIZES[platform])
        listed = in_order.filter(application_missing=False).select_for_update(no_key=True)
        slot = listed.first() or _place(platform) or slot
    return slot


def _is_listed(slot: Slot | None) -> bool:
    return slot is not None and not slot.application_missing


def _lock_idle(platform: str) -> Slot | None:
    """Two queries, so that the first, which nearly always finds one, needs no sorting."""
    pulled_since = timezone.now() - settings.IMAGE_WARM_FOR
    image, size = settings.BOT_IMAGES[platform], settings.MAX_POOL_SIZES[platform]
    return _ready.first(platform, size, image, pulled_since) or _any.first(platform, size)


@Prepared
def _ready(platform: str, size: int, image: str, pulled_since: datetime) -> QuerySet[Slot]:
    """On healthy servers that have the image which bots use there."""
    with_image = servers_with_image(platform, named=image, pulled_since=pulled_since)
    listed = _free(platform, size).filter(application_missing=False)
    ready = listed.exclude(IS_WORSE).filter(server_uuid__in=with_image)
    return ready.order_by(*LEAST_RECENTLY_USED).select_for_update(skip_locked=True, no_key=True)


@Prepared
def _any(platform: str, size: int) -> QuerySet[Slot]:
    return _in_order(platform, size).select_for_update(skip_locked=True, no_key=True)


def _in_order(platform: str, size: int) -> QuerySet[Slot]:
    """On healthy servers first; those whose application is not listed last."""
    worse_last = Case(When(IS_WORSE, then=Value(1)), default=Value(0))
    return _free(platform, size).order_by("application_missing", worse_last, *LEAST_RECENTLY_USED)


def _free(platform: str, size: int) -> QuerySet[Slot]:
    return idle_slots(platform).filter(slots_fit(platform, size))


def _lock_growth(pool: Pool) -> bool:
    """Stop other transactions from growing this pool until this one ends; False if it is full.

    An empty table has no rows to lock: without this lock, two could make the same slot.
    """
    if not may_grow(pool.platform, pool):
        return False  # nothing to wait for
    advisory_lock(GROW_POOL.format(platform=pool.platform))
    return True


def _place(platform: str) -> Slot | None:
    """A slot on the server with the most room: one without an application, or a new one."""
    if not may_grow(platform):  # another transaction may have grown it meanwhile
        return None
    # Other platforms place slots on the same servers.
    advisory_lock(PLACE_SLOT)
    server = server_for_new_slot(platform)
    if server is None:
        return None
    without_place = Slot.objects.filter(WITHOUT_A_PLACE, platform=platform)
    unlocked = without_place.select_for_update(skip_locked=True, no_key=True)
    slot = unlocked.order_by("number").first() or _create(platform)
    if slot is not None:
        slot.server_uuid = server
    return slot


def _create(platform: str) -> Slot | None:
    """Not saved yet: it is inserted with its first bot."""
    taken = {number for (number,) in _numbers.rows(platform)}
    if len(taken) >= pool_size(platform, read_pool(platform)):
        return None
    number = next(number for number in count(1) if number not in taken)
    return Slot(
        platform=platform,
        number=number,
        name=f"{settings.SLOT_NAME_PREFIX}-{platform}-{number:03d}",
        status=SlotStatus.IDLE,
        epoch=0,
    )


@Prepared
def _numbers(platform: str) -> QuerySet[Slot, Any]:
    return Slot.objects.filter(platform=platform).values_list("number")
