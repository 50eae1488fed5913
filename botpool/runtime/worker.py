"""The worker as a part of `manage.py up` and on its own: a cluster that is replaced if frozen."""

import sys
from datetime import timedelta

from django.conf import settings

from botpool.runtime.process import Part
from botpool.runtime.watchdog import WorkerWatch, give_back_tasks


def watched_worker(watch: WorkerWatch, *, environment: dict[str, str]) -> Part:
    def before_start() -> None:
        give_back_tasks(taken_for=_longest_normal_task())
        watch.cluster_starts()

    return Part(
        name="worker",
        command=[sys.executable, str(settings.BASE_DIR / "manage.py"), "qcluster"],
        environment={**environment, **watch.environment},
        complaint=watch.complaint,
        before_start=before_start,
    )


def _longest_normal_task() -> timedelta:
    """Nothing beside us runs tasks on an embedded database; elsewhere other clusters may."""
    return timedelta() if settings.EMBEDDED_POSTGRES else settings.WORKER_SILENCE_LIMIT / 3
