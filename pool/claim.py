"""Finding a slot for a bot: an idle one, else a new one, else none.

This claims the slot's row and no more. Callers go through pool.assign.assign_bot_to_slot,
which moves the bot and writes the history in the same transaction.
"""

from django.conf import settings

from bots.models import Bot
from core.locks import TAKE_LOCK, lock_parameters
from core.sql import columns, fetch_one, instance
from pool.capacity import ROOM_TO_GROW, opening_parameters
from pool.lock_names import GROW_POOL
from slots.models import Slot

# One statement picks, locks and takes the slot. Not within a CTE: PostgreSQL might then answer
# "no slot" while slots are idle.
_CLAIM_IDLE = f"""
UPDATE slots_slot SET
    previous_status = status,
    previous_lasted = clock_timestamp() - status_since,
    status = 'deploying',
    status_since = clock_timestamp(),
    assigned_bot_id = %(bot)s,
    epoch = epoch + 1,
    last_assigned_at = clock_timestamp(),
    last_used_at = clock_timestamp()
WHERE id = (
    SELECT id FROM slots_slot
    WHERE platform = %(platform)s AND status = 'idle' AND NOT cordoned
    ORDER BY last_used_at NULLS FIRST, number
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING {columns(Slot)}
"""  # noqa: S608 (nothing of this comes from outside)

# An empty table has no rows to lock: without this lock two could make the same slot. Nobody waits
# for it where there is no room.
_LOCK_IF_ROOM = f"SELECT {TAKE_LOCK} WHERE {ROOM_TO_GROW}"

# The lowest free number is at most one more than the number of slots there are.
_CREATE = f"""
INSERT INTO slots_slot (
    platform, number, name, server_uuid,
    status, assigned_bot_id, epoch, last_assigned_at, last_used_at
)
SELECT
    %(platform)s,
    number,
    concat_ws(
        '-', %(prefix)s, %(platform)s,
        lpad(number::text, greatest(3, length(number::text)), '0')
    ),
    (%(servers)s::text[])[1 + (number - 1) %% cardinality(%(servers)s::text[])],
    'deploying', %(bot)s, 1, clock_timestamp(), clock_timestamp()
FROM (
    SELECT min(candidate) AS number
    FROM generate_series(
        1, 1 + (SELECT count(*) FROM slots_slot WHERE platform = %(platform)s)
    ) AS candidate
    WHERE NOT EXISTS (
        SELECT FROM slots_slot WHERE platform = %(platform)s AND number = candidate
    )
) AS lowest_free
WHERE {ROOM_TO_GROW}
RETURNING {columns(Slot)}
"""  # noqa: S608


def acquire_or_create_slot(bot: Bot) -> Slot | None:
    """Claim for this bot the idle slot of its platform that was used least recently, or a new
    slot if the pool is below its maximum. None means that the pool is full."""
    slot = _claim_idle(bot)
    if slot is None and _lock_if_there_is_room(bot.platform):
        # One more look: while we waited a slot may have come free.
        slot = _claim_idle(bot) or _create(bot)
    return slot


def _claim_idle(bot: Bot) -> Slot | None:
    row = fetch_one(_CLAIM_IDLE, {"bot": bot.pk, "platform": bot.platform})
    return instance(Slot, row) if row else None


def _lock_if_there_is_room(platform: str) -> bool:
    """Let nobody else grow this pool until the transaction ends; False if it is full."""
    lock = lock_parameters(GROW_POOL.format(platform=platform))
    return fetch_one(_LOCK_IF_ROOM, {**opening_parameters(platform), **lock}) is not None


def _create(bot: Bot) -> Slot | None:
    row = fetch_one(
        _CREATE,
        {
            **opening_parameters(bot.platform),
            "bot": bot.pk,
            "prefix": settings.SLOT_NAME_PREFIX,
            "servers": settings.COOLIFY_SERVER_UUIDS or [""],
        },
    )
    return instance(Slot, row) if row else None
