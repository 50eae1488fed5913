"""Since when Botpool has been able to hear its bots, without a break.

A bot's silence means something only while bots could reach Botpool. A heartbeat of any bot proves
that, or an answer to our own request at the address that bots call. A client's call proves nothing:
it may have taken a different route.
"""

import logging
from datetime import datetime, timedelta

import requests
from django.conf import settings
from django.db.models import Max

from bots.models import Bot
from bots.status import TERMINAL
from core.clock import database_now
from pool.reconciler.candidate import Candidate
from slots.finding import FindingKind, Uptime

logger = logging.getLogger(__name__)

PROBE_TIMEOUT = 3.0
# While not ready for one of these reasons, Botpool does not record the calls of bots.
DEAF = frozenset({"database", "migrations"})


def hearing_since() -> datetime | None:
    """Since when bots could reach Botpool without a break; None if they cannot now."""
    now = database_now()
    heard_at = _last_proof(now)
    last = Uptime.objects.order_by("-until").first()
    if heard_at is None or now - heard_at > _gap():
        return None
    if last is None or heard_at - last.until > _gap():
        Uptime.objects.filter(until__lt=now - settings.KEEP_FINDINGS).delete()
        last = Uptime.objects.create(since=heard_at, until=heard_at)
    elif heard_at > last.until:
        Uptime.objects.filter(pk=last.pk).update(until=heard_at)
    return last.since


def _last_proof(now: datetime) -> datetime | None:
    """Send a request of our own only if no bot was heard for a while."""
    alive = Bot.objects.exclude(status__in=TERMINAL)
    heard_at: datetime | None = alive.aggregate(at=Max("last_heartbeat_at"))["at"]
    if heard_at is not None and now - heard_at < _gap() / 4:
        return heard_at
    return now if web_answers() else heard_at


def _gap() -> timedelta:
    """Never shorter than the gaps between the reconciler's own passes, which prove nothing."""
    return max(settings.HEARING_GAP, 3 * settings.RECONCILE_INTERVAL)


def explicable_silence() -> timedelta:
    """How long a live bot may go unheard in an outage of ours that is too short to be noticed: the
    outage itself, and the heartbeats before and after it."""
    return _gap() * 4 / 3


def web_answers() -> bool:
    return not probe()


def probe() -> str:
    """Why Botpool does not answer where bots call it; empty if it does. A proxy's error page is no
    answer."""
    try:
        with requests.Session() as session:
            session.trust_env = False  # like a bot: without this machine's proxy
            answer = session.get(
                f"{settings.PUBLIC_URL}/readyz", timeout=PROBE_TIMEOUT, allow_redirects=False
            )
        told = answer.json()
    except (requests.RequestException, ValueError) as error:
        logger.info("Botpool does not answer at %s: %s", settings.PUBLIC_URL, error)
        return f"{type(error).__name__}: {error}"[:300]
    if not isinstance(told, dict) or "ready" not in told:
        return "Another program answers there"
    # Without its database it still answers bots, but records nothing.
    deaf = DEAF.intersection(told.get("reasons") or {})
    return f"It does not record the calls of bots: {', '.join(sorted(deaf))}" if deaf else ""


def unheard() -> Candidate:
    """No bot has called for a while, and our own request failed."""
    seconds = _gap().total_seconds()
    return Candidate(
        kind=FindingKind.UNHEARD,
        reason=f"No proof that bots can be heard: Botpool's workers cannot reach "
        f"{settings.PUBLIC_URL}, and no bot has called for {seconds:g} s",
        evidence={"url": settings.PUBLIC_URL, "error": probe()},
        decision="Fail no bot for its silence alone, only if its container is gone, too",
    )
