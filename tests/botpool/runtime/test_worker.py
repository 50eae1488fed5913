import os
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ

from botpool.runtime import watchdog as watching
from botpool.runtime.watchdog import WorkerWatch, give_back_tasks
from core.jobs.periodic import WORKER_HEARTBEAT, PeriodicWork

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def watch(settings, monkeypatch) -> Iterator[WorkerWatch]:
    """Its clock stands still, however slow the machine is."""
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: 1_000_000.0))
    settings.WORKER_SILENCE_LIMIT = timedelta(seconds=30)
    with closing(WorkerWatch()) as watch:
        for name, value in watch.environment.items():
            monkeypatch.setenv(name, value)
        yield watch


def let_pass(watch: WorkerWatch, seconds: float) -> None:
    """As if the last word of a worker were so long ago."""
    watch._listen()
    watch.last_heard -= seconds
    watch.tasks_begun = {pid: begin - seconds for pid, begin in watch.tasks_begun.items()}
    if watch.unacknowledged_since is not None:
        watch.unacknowledged_since -= seconds


def heartbeat(*, asked: float | None = None, finished: float | None = None) -> None:
    def ago(seconds: float | None) -> object:
        return None if seconds is None else Now() - timedelta(seconds=seconds)

    PeriodicWork.objects.create(
        name=WORKER_HEARTBEAT, asked_at=ago(asked), finished_at=ago(finished)
    )


def test_a_silent_cluster_whose_heartbeat_waits_is_frozen(watch):
    heartbeat(asked=31)
    let_pass(watch, 33)

    assert watch.complaint() == "frozen, no task was run for 33 s while the heartbeat waited"


def test_a_cluster_has_time_to_start(watch):
    heartbeat(asked=1000)
    let_pass(watch, 29)

    assert watch.complaint() is None


def test_a_cluster_that_runs_tasks_is_not_frozen_however_long_the_queue(watch):
    heartbeat(asked=1000)
    let_pass(watch, 33)
    watching._tell_end()

    assert watch.complaint() is None


def test_a_cluster_in_the_middle_of_a_long_task_is_not_frozen(watch):
    heartbeat(asked=1000)
    watching._tell_begin()
    let_pass(watch, 50)

    assert watch.complaint() is None


def test_a_task_whose_worker_is_dead_excuses_nobody(watch):
    heartbeat(asked=1000)
    child = os.fork()
    if child == 0:
        watching._tell_begin()
        os._exit(0)
    os.waitpid(child, 0)
    let_pass(watch, 33)

    assert watch.complaint() is not None


def test_silence_is_held_against_nobody_while_no_heartbeat_waits(watch):
    heartbeat(finished=1000)
    let_pass(watch, 1000)

    assert watch.complaint() is None


def test_a_database_that_is_away_is_held_against_nobody(watch, monkeypatch):
    from django.db import connection

    heartbeat(asked=1000)
    let_pass(watch, 1000)
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")

    assert watch.complaint() is None


def test_a_cluster_that_others_leave_nothing_is_replaced_after_a_long_while(watch):
    heartbeat(finished=2)
    let_pass(watch, 200)
    assert watch.complaint() is None

    let_pass(watch, 200)
    watch.next_look = 0.0
    assert "perhaps frozen" in str(watch.complaint())


def test_a_cluster_that_acknowledges_no_task_is_replaced(watch):
    watching._tell_end()
    let_pass(watch, 33)
    watching._tell_begin()

    assert watch.complaint() == "no task was acknowledged for 33 s"


def test_a_cluster_that_acknowledges_its_tasks_is_left_alone(watch):
    watching._tell_end()
    watching._tell_acknowledged()
    let_pass(watch, 33)

    assert watch.complaint() is None


def test_a_new_cluster_begins_with_a_clean_slate(watch):
    heartbeat(asked=1000)
    watching._tell_end()
    let_pass(watch, 33)

    watch.cluster_starts()

    assert watch.complaint() is None


def test_a_worker_does_not_mind_when_its_watch_is_gone(monkeypatch):
    monkeypatch.setenv(watching.SOCKET_VARIABLE, "/nonexistent/socket")

    watching._tell_begin()


def test_tasks_that_a_dead_cluster_took_are_given_back():
    now = timezone.now()
    OrmQ.objects.create(key="botpool", payload="taken long ago", lock=now + timedelta(seconds=200))
    OrmQ.objects.create(key="botpool", payload="just taken", lock=now + timedelta(seconds=299))

    give_back_tasks(taken_for=timedelta(seconds=10))

    free = OrmQ.objects.filter(lock__lte=timezone.now())
    assert [task.payload for task in free] == ["taken long ago"]
