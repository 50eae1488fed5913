from typing import Any

from django_q.management.commands import qcluster

from botpool.runtime.watchdog import tell_watch_of_tasks


class Command(qcluster.Command):
    help = "Starts a django-q2 cluster, unwatched. In production start `manage.py worker` instead."

    def handle(self, *args: Any, **options: Any) -> None:
        tell_watch_of_tasks()
        super().handle(*args, **options)
