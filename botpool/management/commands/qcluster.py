from typing import Any

from django_q.management.commands import qcluster

from botpool.runtime.orphans import end_forks_with_parent
from botpool.runtime.watchdog import report_tasks_to_watchdog
from core.jobs.jobs import load_functions


class Command(qcluster.Command):
    help = "Start a django-q2 cluster without a watchdog. In production, use `manage.py worker`."
    requires_system_checks: list[str] = []  # they would load all pages, at each start

    def handle(self, *args: Any, **options: Any) -> None:
        end_forks_with_parent()
        report_tasks_to_watchdog()
        load_functions()
        super().handle(*args, **options)
