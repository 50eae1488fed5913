"""Bots that have fallen silent while Botpool could hear them.

A bot in the waiting room is alive for as long as it sends heartbeats, like any other.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from bots.models import Bot
from bots.status import RUNNING, FailureCause
from pool.reconciler import repairs
from pool.reconciler.candidate import Candidate
from pool.reconciler.hearing import explicable_silence
from slots.finding import FindingKind
from slots.models import Slot
from slots.status import SlotStatus

KINDS = (FindingKind.HEARTBEAT_LOST,)


def silent_bots(*, hearing_since: datetime, now: datetime) -> Iterator[Candidate]:
    limit = max(settings.HEARTBEAT_TIMEOUT, explicable_silence())
    busy = Slot.objects.filter(status=SlotStatus.BUSY, assigned_bot__status__in=RUNNING)
    for slot in busy.select_related("assigned_bot"):
        bot = slot.assigned_bot
        assert bot is not None
        silent_since = max(last_sign_of_life(slot, bot), hearing_since)
        if now - silent_since > limit:
            yield _silent(slot, bot, silent_since=silent_since, limit=limit)


def last_sign_of_life(slot: Slot, bot: Bot) -> datetime:
    """The last evidence that the bot is alive: a call, a change of status, its start."""
    signs = [bot.last_heartbeat_at, bot.status_since, bot.started_at, slot.status_since]
    return max(sign for sign in signs if sign is not None)


def _silent(slot: Slot, bot: Bot, *, silent_since: datetime, limit: timedelta) -> Candidate:
    heard = bot.last_heartbeat_at
    last = f"last heartbeat {heard:%Y-%m-%dT%H:%M:%SZ}" if heard else "no heartbeat so far"
    reason = f"Heartbeat lost: {last}, limit {limit.total_seconds():g} s"
    return Candidate(
        kind=FindingKind.HEARTBEAT_LOST,
        slot=slot,
        reason=reason,
        evidence={
            "lastHeartbeatAt": heard.isoformat() if heard else None,
            "silentSince": silent_since.isoformat(),
            "limitSeconds": limit.total_seconds(),
            "botStatus": bot.status,
        },
        decision="Fail the bot and release the slot",
        repair=partial(
            repairs.release_silent,
            slot,
            reason=reason,
            cause=FailureCause.HEARTBEAT_LOST,
            heard_at=heard,
        ),
    )
