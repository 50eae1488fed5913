"""Whether a worker and a ticker do their work; each check returns a reason if not."""

from typing import Any

from django.conf import settings
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from core.jobs.jobs import WORKER_HEARTBEAT
from core.jobs.ticker import LEASE, LEASE_TTL
from core.leases import Lease


def reasons_of_processes() -> dict[str, str]:
    found = Lease.objects.filter(key__in=(WORKER_HEARTBEAT, LEASE)).annotate(
        finished=_since("finished_at"), expired=_since("expires_at")
    )
    leases = {lease.key: lease for lease in found}
    reasons = {
        "worker": _worker(leases.get(WORKER_HEARTBEAT)),
        "ticker": _ticker(leases.get(LEASE)),
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _since(field: str) -> ExpressionWrapper:
    return ExpressionWrapper(Now() - F(field), output_field=DurationField())


def _worker(heartbeat: Any) -> str:
    silence = heartbeat.finished if heartbeat else None
    if silence is None:
        return "no worker has run yet (manage.py worker)"
    if silence > settings.WORKER_SILENCE_LIMIT + settings.WORKER_HEARTBEAT_INTERVAL:
        return f"no worker has run the heartbeat for {silence.total_seconds():.0f} s"
    return ""


def _ticker(leading: Any) -> str:
    if leading is None or not leading.holder or leading.expired is None:
        return "no ticker leads (manage.py ticker)"
    silence = leading.expired + LEASE_TTL
    if silence > 2 * LEASE_TTL:
        return f"no ticker has led for {silence.total_seconds():.0f} s"
    return ""
