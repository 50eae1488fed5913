"""Workers that can be killed: `python -m tests.pool.controller.worker_nursery SETTINGS`
starts one for each line it reads, and prints its process id. It has no threads, so it can fork
safely. It imports what a worker needs, so a worker works from its first millisecond."""

import json
import os
import signal
import sys
import time
import traceback
from datetime import timedelta

import django


def set_up(changes):
    os.environ["DJANGO_SETTINGS_MODULE"] = "botpool.settings"
    django.setup()
    from django.conf import settings
    from django.db import connections

    connections.databases["default"]["NAME"] = changes.pop("database")
    for name, milliseconds in changes.pop("durations").items():
        setattr(settings, name, timedelta(milliseconds=milliseconds))
    for name, value in changes.items():
        setattr(settings, name, value)


def work(parent):
    """Do the work of django-q2's workers, as fast as possible."""
    from pool.reconciler.reconcile import reconcile
    from pool.sweep import sweep_queue
    from tests.controller import tend_slots

    while os.getppid() == parent:
        for job in (sweep_queue, tend_slots, reconcile):
            try:
                job()
            except Exception:
                traceback.print_exc()
        time.sleep(0.02)


def main():
    set_up(json.loads(sys.argv[1]))

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed workers leave no zombies
    me = os.getpid()
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            work(me)
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
