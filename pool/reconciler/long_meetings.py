"""Bots that stay in their meetings beyond the limit, although they were told to leave.

pool.reports tells them, from the limit on, with each answer. This releases their slots after a
grace: such a bot hangs, or its meeting never ends. One that has not called since the limit was not
told; if it stays silent, its lost heartbeat ends it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db.models import F

from bots.models import Bot
from bots.status import RUNNING, FailureCause
from pool.reconciler import repairs
from pool.reconciler.candidate import Candidate
from slots.finding import FindingKind
from slots.models import Slot
from slots.status import SlotStatus

KINDS = (FindingKind.MEETING_TOO_LONG,)


def overlong_meetings(now: datetime) -> Iterator[Candidate]:
    latest = now - settings.MAX_MEETING_DURATION - settings.MEETING_LEAVE_GRACE
    busy = Slot.objects.filter(status=SlotStatus.BUSY, assigned_bot__status__in=RUNNING)
    overlong = busy.filter(assigned_bot__started_at__lt=latest)
    limit = F("assigned_bot__started_at") + settings.MAX_MEETING_DURATION
    told = overlong.filter(assigned_bot__last_heartbeat_at__gt=limit).order_by("pk")
    for slot in told.select_related("assigned_bot"):
        assert slot.assigned_bot is not None
        yield _overlong(slot, slot.assigned_bot)


_UNITS = (("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))


def _words(duration: timedelta) -> str:
    """Such as 24 h, 1 h 30 min or 20 s."""
    rest, words = duration // timedelta(milliseconds=1), []
    for unit, size in _UNITS:
        number, rest = divmod(rest, size)
        words += [f"{number} {unit}"] if number else []
    return " ".join(words)


def _overlong(slot: Slot, bot: Bot) -> Candidate:
    assert bot.started_at is not None
    limit: timedelta = settings.MAX_MEETING_DURATION
    reason = (
        f"In its meeting since {bot.started_at:%Y-%m-%dT%H:%M:%SZ}: longer than {_words(limit)} "
        "(MAX_MEETING_DURATION), and it did not leave when told to"
    )
    return Candidate(
        kind=FindingKind.MEETING_TOO_LONG,
        slot=slot,
        reason=reason,
        evidence={
            "startedAt": bot.started_at.isoformat(),
            "limitSeconds": limit.total_seconds(),
            "botStatus": bot.status,
        },
        decision="Fail the bot and release the slot",
        repair=partial(
            repairs.release_running, slot, reason=reason, cause=FailureCause.MEETING_TOO_LONG
        ),
    )
