"""Finding a slot for a bot: an idle one, else a new one, else none.

This only locks or makes the slot's row; pool.assign gives it to the bot.
"""

from itertools import count

from django.conf import settings
from django.db.models import F

from bots.models import Bot
from core.locks import advisory_lock
from pool.capacity import has_room, idle_slots
from pool.lock_names import GROW_POOL
from slots.models import Slot
from slots.status import SlotStatus


def acquire_or_create_slot(bot: Bot) -> Slot | None:
    """Lock the platform's least recently used idle slot, or make one if the pool has room.

    None means that the pool is full.
    """
    slot = _lock_idle(bot.platform, skip_locked=True)
    if slot is None and _lock_growth(bot.platform):
        # Try again and wait for locks: a slot that another transaction holds for a moment is no
        # reason to grow.
        slot = _lock_idle(bot.platform, skip_locked=False) or _create(bot.platform)
    return slot


def _lock_idle(platform: str, *, skip_locked: bool) -> Slot | None:
    in_turn = idle_slots(platform).order_by(F("last_used_at").asc(nulls_first=True), "number")
    return in_turn.select_for_update(skip_locked=skip_locked, no_key=True).first()


def _lock_growth(platform: str) -> bool:
    """Stop other transactions from growing this pool until this one ends; False if it is full.

    An empty table has no rows to lock: without this lock, two could make the same slot.
    """
    if not has_room(platform):
        return False  # nothing to wait for
    advisory_lock(GROW_POOL.format(platform=platform))
    return True


def _create(platform: str) -> Slot | None:
    """Not saved yet: it is inserted with its first bot."""
    if not has_room(platform):  # another transaction may have grown it meanwhile
        return None
    number = _lowest_free_number(platform)
    return Slot(
        platform=platform,
        number=number,
        name=f"{settings.SLOT_NAME_PREFIX}-{platform}-{number:03d}",
        server_uuid=_server(number),
        status=SlotStatus.IDLE,
        epoch=0,
    )


def _lowest_free_number(platform: str) -> int:
    taken = set(Slot.objects.filter(platform=platform).values_list("number", flat=True))
    return next(number for number in count(1) if number not in taken)


def _server(number: int) -> str:
    servers = settings.COOLIFY_SERVER_UUIDS or [""]
    return str(servers[(number - 1) % len(servers)])
