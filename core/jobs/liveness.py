"""Whether a worker and a ticker do their work; each check returns a reason if not."""

from collections.abc import Callable

from django.conf import settings
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from core.jobs.jobs import WORKER_HEARTBEAT
from core.jobs.ticker import LEASE, LEASE_TTL
from core.leases import Lease


def reasons_of_processes() -> dict[str, str]:
    checks: dict[str, Callable[[], str]] = {"worker": _worker, "ticker": _ticker}
    return {name: reason for name, check in checks.items() if (reason := check())}


def _worker() -> str:
    since = ExpressionWrapper(Now() - F("finished_at"), output_field=DurationField())
    heartbeats = Lease.objects.filter(key=WORKER_HEARTBEAT).annotate(silence=since)
    silence = heartbeats.values_list("silence", flat=True).first()
    if silence is None:
        return "no worker has run yet (manage.py worker)"
    if silence > settings.WORKER_SILENCE_LIMIT + settings.WORKER_HEARTBEAT_INTERVAL:
        return f"no worker has run the heartbeat for {silence.total_seconds():.0f} s"
    return ""


def _ticker() -> str:
    since = ExpressionWrapper(Now() - F("expires_at"), output_field=DurationField())
    leading = Lease.objects.filter(key=LEASE).exclude(holder="").annotate(expired=since)
    expired = leading.values_list("expired", flat=True).first()
    if expired is None:
        return "no ticker leads (manage.py ticker)"
    silence = expired + LEASE_TTL
    if silence > 2 * LEASE_TTL:
        return f"no ticker has led for {silence.total_seconds():.0f} s"
    return ""
