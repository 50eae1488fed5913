"""The worker process, alone or in `manage.py up`: a cluster that is replaced if it freezes."""

import sys
from datetime import timedelta

from django.conf import settings

from botpool.runtime.process import ManagedProcess
from botpool.runtime.watchdog import WorkerWatchdog, give_back_tasks


def watched_worker(
    watchdog: WorkerWatchdog, *, environment: dict[str, str], gives_way: bool = False
) -> ManagedProcess:
    def before_start() -> None:
        give_back_tasks(taken_for=_longest_normal_task())
        watchdog.cluster_starts()

    return ManagedProcess(
        name="worker",
        command=[sys.executable, str(settings.BASE_DIR / "manage.py"), "qcluster"],
        environment={**environment, **watchdog.environment},
        complaint=watchdog.complaint,
        before_start=before_start,
        gives_way=gives_way,
    )


def _longest_normal_task() -> timedelta:
    """With an embedded database, no other cluster can be running tasks."""
    return timedelta() if settings.EMBEDDED_POSTGRES else settings.WORKER_SILENCE_LIMIT / 3
