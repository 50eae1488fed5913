from contextlib import closing
from typing import Any

from django.core.management.base import BaseCommand

from botpool.runtime.supervisor import Supervisor
from botpool.runtime.watchdog import WorkerWatch
from botpool.runtime.worker import watched_worker


class Command(BaseCommand):
    help = (
        "Runs tasks: a django-q2 cluster (qcluster) that is watched. It is started again when it "
        "ends, and replaced with all its processes when it runs no task although its heartbeat "
        "waits for longer than WORKER_SILENCE_LIMIT (milliseconds, default 30000). Run one on "
        "each machine; `manage.py up` contains one."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with closing(WorkerWatch()) as watch:
            Supervisor([watched_worker(watch, environment={})]).run()
