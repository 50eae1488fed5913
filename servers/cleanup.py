"""Coolify's nightly clean-up of images: until when a found image can be relied on. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

DAY = timedelta(days=1)


def trusted_until(found_at: datetime, *, times: Iterable[timedelta], margin: timedelta) -> datetime:
    """An image that was found on a server is there until the next clean-up comes near. Around a
    clean-up it may be removed at any moment: then this is `found_at` itself.

    `times`: when the clean-up begins, since midnight. It runs within `margin` after that, and a
    start within `margin` before it may find its image gone halfway.
    """
    midnight = found_at.replace(hour=0, minute=0, second=0, microsecond=0)
    begins = [midnight + days * DAY + time for days in (-1, 0, 1) for time in times]
    near = [each for each in begins if each - margin <= found_at < each + margin]
    if near:
        return found_at
    ahead = [each - margin for each in begins if each > found_at]
    return min(ahead, default=found_at + 365 * DAY)
