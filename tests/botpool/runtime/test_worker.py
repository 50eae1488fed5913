import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ

from botpool.runtime import watchdog as module
from botpool.runtime.watchdog import WorkerWatchdog, give_back_tasks
from core.jobs.jobs import WORKER_HEARTBEAT
from core.leases import Lease
from tests.processes import ROOT, environment

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def watchdog(settings, monkeypatch) -> Iterator[WorkerWatchdog]:
    """A watchdog whose clock stands still, because the machine may be slow."""
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 1_000_000.0))
    settings.WORKER_SILENCE_LIMIT = timedelta(seconds=30)
    with closing(WorkerWatchdog()) as watchdog:
        for name, value in watchdog.environment.items():
            monkeypatch.setenv(name, value)
        yield watchdog


def let_pass(watchdog: WorkerWatchdog, seconds: float) -> None:
    """Move everything the watchdog has heard into the past."""
    watchdog._listen()
    watchdog.last_heard -= seconds
    watchdog.tasks_begun = {pid: begin - seconds for pid, begin in watchdog.tasks_begun.items()}
    if watchdog.unacknowledged_since is not None:
        watchdog.unacknowledged_since -= seconds


def heartbeat(*, asked: float | None = None, finished: float | None = None) -> None:
    def ago(seconds: float | None) -> object:
        return None if seconds is None else Now() - timedelta(seconds=seconds)

    Lease.objects.create(key=WORKER_HEARTBEAT, asked_at=ago(asked), finished_at=ago(finished))


def test_a_silent_cluster_whose_heartbeat_waits_is_frozen(watchdog):
    heartbeat(asked=31)
    let_pass(watchdog, 33)

    assert watchdog.complaint() == "frozen: no task ran for 33 s while the heartbeat waited"


def test_a_cluster_has_time_to_start(watchdog):
    heartbeat(asked=1000)
    let_pass(watchdog, 29)

    assert watchdog.complaint() is None


def test_a_cluster_that_runs_tasks_is_not_frozen_however_long_the_queue(watchdog):
    heartbeat(asked=1000)
    let_pass(watchdog, 33)
    module._report_end()

    assert watchdog.complaint() is None


def test_a_cluster_in_the_middle_of_a_long_task_is_not_frozen(watchdog):
    heartbeat(asked=1000)
    module._report_begin()
    let_pass(watchdog, 50)

    assert watchdog.complaint() is None


def test_the_task_of_a_dead_worker_does_not_count_as_running(watchdog):
    heartbeat(asked=1000)
    child = os.fork()
    if child == 0:
        module._report_begin()
        os._exit(0)
    os.waitpid(child, 0)
    let_pass(watchdog, 33)

    assert watchdog.complaint() is not None


def test_silence_is_harmless_while_no_heartbeat_waits(watchdog):
    heartbeat(finished=1000)
    let_pass(watchdog, 1000)

    assert watchdog.complaint() is None


def test_a_cluster_is_not_replaced_while_the_database_is_away(watchdog, monkeypatch):
    from django.db import connection

    heartbeat(asked=1000)
    let_pass(watchdog, 1000)
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")

    assert watchdog.complaint() is None


def test_a_cluster_idle_for_long_while_others_work_is_replaced(watchdog):
    heartbeat(finished=2)
    let_pass(watchdog, 200)
    assert watchdog.complaint() is None

    let_pass(watchdog, 200)
    watchdog.next_check = 0.0
    assert "perhaps frozen" in str(watchdog.complaint())


def test_a_cluster_that_acknowledges_no_tasks_is_replaced(watchdog):
    module._report_end()
    let_pass(watchdog, 33)
    module._report_begin()

    assert watchdog.complaint() == "no task was acknowledged for 33 s"


def test_a_cluster_that_acknowledges_its_tasks_is_left_alone(watchdog):
    module._report_end()
    module._report_acknowledged()
    let_pass(watchdog, 33)

    assert watchdog.complaint() is None


def test_a_new_cluster_starts_with_a_clean_slate(watchdog):
    heartbeat(asked=1000)
    module._report_end()
    let_pass(watchdog, 33)

    watchdog.cluster_starts()

    assert watchdog.complaint() is None


def test_a_cluster_that_starts_slowly_gets_twice_the_time_at_each_start(watchdog):
    """On a machine that is too busy, each start would be cut short by the next one for ever."""
    heartbeat(asked=1000)
    for time_to_start in (30, 60, 120, 240, 300, 300):
        watchdog.cluster_starts()
        watchdog.next_check = 0.0
        let_pass(watchdog, time_to_start - 1)
        assert watchdog.complaint() is None
        watchdog.next_check = 0.0
        let_pass(watchdog, 2)
        assert watchdog.complaint() is not None


def test_a_cluster_that_has_run_a_task_gets_no_more_time_than_any_other(watchdog):
    heartbeat(asked=1000)
    let_pass(watchdog, 33)
    assert watchdog.complaint() is not None
    watchdog.cluster_starts()
    module._report_begin()
    module._report_end()
    module._report_acknowledged()
    let_pass(watchdog, 33)
    watchdog.next_check = 0.0
    assert watchdog.complaint() is not None
    watchdog.cluster_starts()
    let_pass(watchdog, 33)
    watchdog.next_check = 0.0
    assert watchdog.complaint() is not None


def test_a_worker_ignores_a_missing_watchdog(monkeypatch):
    monkeypatch.setenv(module.SOCKET_VARIABLE, "/nonexistent/socket")

    module._report_begin()


def test_tasks_of_a_dead_cluster_are_given_back():
    now = timezone.now()
    OrmQ.objects.create(key="botpool", payload="taken long ago", lock=now + timedelta(seconds=200))
    OrmQ.objects.create(key="botpool", payload="just taken", lock=now + timedelta(seconds=299))

    give_back_tasks(taken_for=timedelta(seconds=10))

    free = OrmQ.objects.filter(lock__lte=timezone.now())
    assert [task.payload for task in free] == ["taken long ago"]


def test_a_task_that_is_being_deleted_does_not_keep_others_from_being_given_back():
    """The ticker deletes lost tasks in the order of their keys, in one transaction: whoever waits
    for one of them while holding another one could deadlock with it."""
    taken_at = timezone.now() + timedelta(seconds=200)
    lost = OrmQ.objects.create(key="botpool", payload="lost", lock=taken_at)
    OrmQ.objects.create(key="botpool", payload="taken", lock=taken_at)

    with transaction.atomic():
        lost.delete()
        give_back_tasks(taken_for=timedelta(seconds=10))

    free = OrmQ.objects.filter(lock__lte=timezone.now())
    assert [task.payload for task in free] == ["taken"]


# In a process of its own: here, everything is loaded already.
WHAT_IS_LOADED = """
import sys, django
django.setup()
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django_q.management.commands import qcluster
from core.jobs.jobs import works

def handle(*args, **options):
    functions = [*(work.function for work in works()), *settings.JOB_HANDLERS.values()]
    print([each for each in functions if each.rpartition(".")[0] not in sys.modules])
    print("connected" if connection.connection else "not connected")

qcluster.Command.handle = handle
call_command("qcluster")
"""


def test_a_cluster_has_loaded_all_jobs_before_it_forks_its_workers(tmp_path):
    """And it has no connection, which its workers would share."""
    variables = environment(tmp_path, DJANGO_SETTINGS_MODULE="botpool.settings")
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_LOADED],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["[]", "not connected"], done.stderr
