"""What must be true before Botpool can serve: each check answers with a reason if it is not."""

import logging
from collections.abc import Callable

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from botpool.models import PeriodicWork, TickerLease
from botpool.periodic import WORKER_HEARTBEAT
from botpool.ticker import LEASE_TTL

logger = logging.getLogger(__name__)


def reasons_not_to_serve() -> dict[str, str]:
    """The reasons by the name of the part; later parts are not asked when the database is away."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        waiting = _waiting_migrations()
        return {"migrations": waiting} if waiting else reasons_of_processes()
    except Error as error:
        # Whoever asks here may be anybody: where the server is and who we are there is not for all.
        logger.warning("PostgreSQL does not answer: %s", str(error).strip().splitlines()[0])
        return {"database": "PostgreSQL does not answer; the log and manage.py doctor say why"}


def _waiting_migrations() -> str:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return ""
    first, _ = plan[0]
    return f"{len(plan)} not applied, first {first.app_label}.{first.name} (run manage.py migrate)"


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
