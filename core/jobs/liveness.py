"""Whether a worker and a ticker do their work: each check answers with a reason if not."""

from collections.abc import Callable

from django.conf import settings
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from core.jobs.periodic import WORKER_HEARTBEAT, PeriodicWork
from core.jobs.ticker import LEASE_TTL, TickerLease


def reasons_of_processes() -> dict[str, str]:
    checks: dict[str, Callable[[], str]] = {"worker": _worker, "ticker": _ticker}
    return {name: reason for name, check in checks.items() if (reason := check())}


def _worker() -> str:
    since = ExpressionWrapper(Now() - F("finished_at"), output_field=DurationField())
    heartbeats = PeriodicWork.objects.filter(name=WORKER_HEARTBEAT).annotate(silence=since)
    silence = heartbeats.values_list("silence", flat=True).first()
    if silence is None:
        return "no worker has shown itself yet (manage.py worker)"
    if silence > settings.WORKER_SILENCE_LIMIT + settings.WORKER_HEARTBEAT_INTERVAL:
        return f"no worker has run the heartbeat for {silence.total_seconds():.0f} s"
    return ""


def _ticker() -> str:
    since = ExpressionWrapper(Now() - F("seen_at"), output_field=DurationField())
    silence = TickerLease.objects.annotate(silence=since).values_list("silence", flat=True).first()
    if silence is None:
        return "no ticker leads (manage.py ticker)"
    if silence > 2 * LEASE_TTL:
        return f"no ticker has led for {silence.total_seconds():.0f} s"
    return ""
