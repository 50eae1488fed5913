"""Whether a bot may go ahead now: the questions, as SQL, that a newcomer and a drain both ask.

Each is a condition on the parameters of `opening_parameters`.
"""

from typing import Any

from django.conf import settings

PAUSED = """
EXISTS (
    SELECT FROM slots_pool
    WHERE platform = %(platform)s AND paused_at IS NOT NULL
    AND (paused_until IS NULL OR paused_until > clock_timestamp())
)
"""

# An idle slot, or room for one more. Only a hint: whoever takes it makes sure in slots.claims.
SLOT_TO_BE_HAD = """
(
    EXISTS (
        SELECT FROM slots_slot
        WHERE platform = %(platform)s AND status = 'idle' AND NOT cordoned
    )
    OR (SELECT count(*) FROM slots_slot WHERE platform = %(platform)s)
        < coalesce((SELECT max_size FROM slots_pool WHERE platform = %(platform)s), %(maximum)s)
)
"""


def opening_parameters(platform: str) -> dict[str, Any]:
    return {"platform": platform, "maximum": settings.MAX_POOL_SIZES[platform]}
