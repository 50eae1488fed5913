from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ

from core.jobs import periodic
from core.jobs.periodic import PeriodicWork, Work, ask_for_due_work
from tests.concurrency import at_once

pytestmark = pytest.mark.django_db

NAME = "test work"
runs: list[str] = []


def record_run() -> None:
    runs.append(NAME)


def fail() -> None:
    raise ValueError("no such luck")


@pytest.fixture(autouse=True)
def works(monkeypatch, settings) -> Iterator[None]:
    settings.TEST_INTERVAL = timedelta(hours=1)
    only = Work(name=NAME, function=f"{__name__}.record_run", interval="TEST_INTERVAL")
    monkeypatch.setattr("botpool.schedule.WORKS", (only,))
    monkeypatch.setattr(f"{__name__}.runs", [])
    yield


def row() -> PeriodicWork:
    return PeriodicWork.objects.get(name=NAME)


def change(**fields: object) -> None:
    PeriodicWork.objects.filter(name=NAME).update(**fields)


def finish_waiting_task() -> None:
    assert periodic.run(NAME)
    OrmQ.objects.all().delete()


# --- Asking ---


def test_it_asks_for_work_that_never_ran():
    asked, _ = ask_for_due_work()

    assert asked == {NAME}
    assert OrmQ.objects.get().task["args"] == (NAME,)


def test_it_does_not_ask_again_before_the_interval_has_passed():
    ask_for_due_work()
    finish_waiting_task()

    asked, pause = ask_for_due_work()

    assert asked == set()
    assert pause <= timedelta(seconds=1)


def test_it_asks_again_after_the_interval():
    ask_for_due_work()
    finish_waiting_task()
    change(nudged_at=Now() - timedelta(hours=2))

    assert ask_for_due_work()[0] == {NAME}


def test_it_says_how_soon_the_next_work_is_due(settings):
    settings.TEST_INTERVAL = timedelta(seconds=100)
    ask_for_due_work()
    finish_waiting_task()
    change(nudged_at=Now() - timedelta(seconds=99.8))

    assert ask_for_due_work()[1] <= timedelta(seconds=0.2)


def test_wanted_work_does_not_wait_for_its_interval():
    ask_for_due_work()
    finish_waiting_task()

    assert ask_for_due_work(wanted=frozenset({NAME}))[0] == {NAME}


def test_tasks_do_not_pile_up_while_no_worker_runs(settings):
    settings.TEST_INTERVAL = timedelta()
    for _ in range(30):
        change(look_again_at=Now() - timedelta(seconds=1))
        ask_for_due_work(wanted=frozenset({NAME}))

    assert OrmQ.objects.count() == 1


def test_tasks_do_not_pile_up_while_a_run_takes_long(settings):
    settings.TEST_INTERVAL = timedelta()
    ask_for_due_work()
    change(asked_at=None, running_until=Now() + timedelta(minutes=1))

    assert ask_for_due_work()[0] == set()


def test_a_waiting_task_keeps_its_place_in_the_queue():
    ask_for_due_work()
    task = OrmQ.objects.get().pk
    change(look_again_at=Now() - timedelta(seconds=1))

    ask_for_due_work()

    assert OrmQ.objects.get().pk == task
    assert row().look_again_at > timezone.now()


def test_a_task_that_died_with_its_worker_is_sent_again_in_its_place():
    ask_for_due_work()
    asked_at = row().asked_at
    taken = OrmQ.objects.get()
    OrmQ.objects.update(lock=Now() + timedelta(minutes=5))
    change(look_again_at=Now() - timedelta(seconds=1))

    ask_for_due_work()

    assert OrmQ.objects.get().pk != taken.pk
    assert row().asked_at == asked_at


def test_a_task_that_vanished_is_sent_again():
    ask_for_due_work()
    OrmQ.objects.all().delete()
    change(look_again_at=Now() - timedelta(seconds=1))

    ask_for_due_work()

    assert OrmQ.objects.count() == 1


def test_a_run_that_died_is_asked_for_again_and_its_task_withdrawn(settings):
    settings.TEST_INTERVAL = timedelta()
    ask_for_due_work()
    dead = OrmQ.objects.get().pk
    change(asked_at=None, running_until=Now() - timedelta(seconds=1), running_by="dead")

    assert ask_for_due_work()[0] == {NAME}
    assert OrmQ.objects.get().pk != dead


def test_a_clock_of_the_host_that_is_wrong_changes_nothing(monkeypatch):
    ask_for_due_work()
    finish_waiting_task()
    a_year_on = timezone.now() + timedelta(days=365)
    monkeypatch.setattr("django.utils.timezone.now", lambda: a_year_on)

    assert ask_for_due_work()[0] == set()


# --- Running ---


def test_a_run_leaves_its_times():
    ask_for_due_work()

    assert periodic.run(NAME)

    assert runs == [NAME]
    done = row()
    assert done.asked_at is None and done.running_until is None
    assert done.started_at <= done.finished_at
    assert done.duration >= timedelta()


def test_a_task_too_many_does_nothing():
    ask_for_due_work()
    periodic.run(NAME)

    assert not periodic.run(NAME)
    assert runs == [NAME]


def test_work_that_is_no_longer_in_the_list_is_left_alone():
    assert not periodic.run("forgotten work")


def test_a_failed_run_leaves_its_error_and_may_run_again(monkeypatch):
    failing = Work(name=NAME, function=f"{__name__}.fail", interval="TEST_INTERVAL")
    monkeypatch.setattr("botpool.schedule.WORKS", (failing,))
    ask_for_due_work()

    with pytest.raises(ValueError, match="no such luck"):
        periodic.run(NAME)

    assert row().error == "ValueError: no such luck"
    assert row().failed_at is not None and row().finished_at is None
    assert row().running_until is None


def test_a_run_given_up_for_dead_does_not_speak_for_its_successor():
    ask_for_due_work()
    change(running_by="the successor", running_until=Now() + timedelta(minutes=1))

    periodic._record(NAME, token="the dead", begin=0.0, error="")

    assert row().running_by == "the successor"
    assert row().finished_at is None


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_at_once_one_runs_it():
    ask_for_due_work()

    ran = at_once([lambda: periodic.run(NAME)] * 8)

    assert sorted(ran) == [False] * 7 + [True]
    assert runs == [NAME]


def test_the_list_names_functions_and_settings_that_exist(settings, monkeypatch):
    monkeypatch.undo()
    from django.utils.module_loading import import_string

    assert len({work.name for work in periodic.works()}) == len(periodic.works())
    for work in periodic.works():
        assert callable(import_string(work.function))
        assert work.pause > timedelta()


@pytest.mark.parametrize("asked_at", [None, Now() - timedelta(hours=1)])
def test_a_receipt_from_the_time_with_redis_stops_nobody(asked_at):
    PeriodicWork.objects.create(
        name=NAME, receipt="eyJ0YXNr:signed", asked_at=asked_at, look_again_at=asked_at
    )
    ask_for_due_work()
    assert row().receipt.isdecimal()
