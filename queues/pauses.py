"""Pausing a platform: its waiters keep their places and get no slot until it goes on."""

import logging
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from bots.status import Platform
from queues.nudge import drain_after_commit
from slots.models import Pool

logger = logging.getLogger(__name__)


def pause_platform(
    platform: str, *, reason: str, actor: str, until: datetime | None = None
) -> None:
    """Give out no slots, to waiters or newcomers, until `until` or until it is resumed."""
    Pool.objects.update_or_create(
        platform=platform,
        defaults={
            "paused_at": Now(),
            "paused_until": until,
            "paused_by": actor,
            "pause_reason": reason,
        },
    )
    _log(platform, f"paused until {until or 'resumed'}", reason=reason, actor=actor)


def resume_platform(platform: str, *, reason: str, actor: str) -> bool:
    """Go on; False if the platform was not paused."""
    with transaction.atomic():
        resumed = (
            paused_pools()
            .filter(platform=platform)
            .update(paused_at=None, paused_until=None, paused_by="", pause_reason="")
        )
        if resumed:
            drain_after_commit(platform)
            _log(platform, "resumed", reason=reason, actor=actor)
    return bool(resumed)


def paused_pools() -> QuerySet[Pool]:
    """The pools that are paused now. A pause that has come to its end is none."""
    not_over = Q(paused_until__isnull=True) | Q(paused_until__gt=Now())
    return Pool.objects.filter(not_over, paused_at__isnull=False)


def current_pause(platform: str) -> Pool | None:
    return paused_pools().filter(platform=platform).first()


def _log(platform: str, what: str, *, reason: str, actor: str) -> None:
    name = Platform(platform).label
    fields = {"platform": platform, "what": what, "reason": reason, "actor": actor}
    line = f'[Queue] {name}: {what} | actor={actor} | reason="{reason}"'
    transaction.on_commit(lambda: logger.info("%s", line, extra={"fields": fields}))
