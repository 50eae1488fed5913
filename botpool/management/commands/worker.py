from contextlib import closing
from typing import Any

from django.core.management.base import BaseCommand

from botpool.runtime.supervisor import Supervisor
from botpool.runtime.watchdog import WorkerWatchdog
from botpool.runtime.worker import watched_worker


class Command(BaseCommand):
    help = (
        "Run tasks in a django-q2 cluster with a watchdog. The cluster is restarted when it ends, "
        "and replaced with all its processes when it runs no task while its heartbeat waits for "
        "longer than WORKER_SILENCE_LIMIT (milliseconds, default 30000). Run one on each machine; "
        "`manage.py up` includes one."
    )
    requires_system_checks: list[str] = []  # they would load all pages, at each start

    def handle(self, *args: Any, **options: Any) -> None:
        with closing(WorkerWatchdog()) as watchdog:
            Supervisor([watched_worker(watchdog, environment={})]).run()
