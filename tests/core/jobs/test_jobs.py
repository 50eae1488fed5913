"""Jobs: asking for a run, running it, and running it again."""

import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ

from core.clock import database_now
from core.jobs import jobs
from core.jobs.jobs import Work, ask, ask_for_due_jobs, wake
from core.leases import (
    WAKE_CHANNEL,
    HeldLease,
    Lease,
    acquire_lease,
    holding_lease,
    release_lease,
)
from core.sql import fetch_one
from tests.concurrency import at_once
from tests.notices import listening

pytestmark = pytest.mark.django_db

NAME, KEY = "test work", "slot:7"
LONG = timedelta(minutes=1)
runs: list[object] = []
answers: list[timedelta | None] = []


def record_run() -> None:
    runs.append(NAME)


def record_id(number: int, lease: HeldLease) -> timedelta | None:
    runs.append(number)
    return answers.pop() if answers else None


def wake_it_meanwhile(number: int, lease: HeldLease) -> None:
    runs.append(number)
    assert ask([KEY]) == set()


def lose_the_lease(number: int, lease: HeldLease) -> None:
    Lease.objects.update(expires_at=Now() - timedelta(seconds=1))
    acquire_lease(KEY, ttl=LONG, tries=1)


def fail(*arguments: object) -> None:
    raise ValueError("no such luck")


@pytest.fixture(autouse=True)
def works(monkeypatch, settings) -> Iterator[None]:
    settings.TEST_INTERVAL = timedelta(hours=1)
    only = Work(name=NAME, function=f"{__name__}.record_run", interval="TEST_INTERVAL")
    monkeypatch.setattr("botpool.schedule.WORKS", (only,))
    handle_with(settings, record_id)
    runs.clear()
    answers.clear()
    yield


def handle_with(settings, handler) -> None:
    settings.JOB_HANDLERS = {"slot": f"{__name__}.{handler.__name__}"}


def row(key: str = NAME) -> Lease:
    return Lease.objects.get(key=key)


def change(**fields: object) -> None:
    Lease.objects.update(**fields)


def ago(**how_long: float) -> object:
    return Now() - timedelta(**how_long)


def finish_waiting_task() -> None:
    assert jobs.run(NAME)
    OrmQ.objects.all().delete()


def a_worker_takes_the_task() -> None:
    OrmQ.objects.update(lock=Now() + timedelta(minutes=5))


def keys_of_tasks() -> list[str]:
    return sorted(task.task["args"][0] for task in OrmQ.objects.all())


# --- Asking for periodic work ---


def test_it_asks_for_work_that_never_ran():
    asked, _ = ask_for_due_jobs()

    assert asked == {NAME}
    assert OrmQ.objects.get().task["args"] == (NAME,)


def test_it_does_not_ask_again_before_the_interval_has_passed():
    ask_for_due_jobs()
    finish_waiting_task()

    asked, pause = ask_for_due_jobs()

    assert asked == set()
    assert pause == timedelta(seconds=1)


def test_it_asks_again_an_interval_after_the_start(settings):
    settings.TEST_INTERVAL = timedelta()
    ask_for_due_jobs()
    finish_waiting_task()

    assert row().due_at == row().acquired_at
    assert ask_for_due_jobs()[0] == {NAME}


def test_it_says_how_soon_the_next_work_is_due():
    ask_for_due_jobs()
    finish_waiting_task()
    change(due_at=Now() + timedelta(seconds=0.2))

    assert ask_for_due_jobs()[1] <= timedelta(seconds=0.2)


def test_woken_work_does_not_wait_for_its_interval():
    ask_for_due_jobs()
    finish_waiting_task()

    assert ask_for_due_jobs(woken={NAME})[0] == {NAME}


def test_tasks_do_not_pile_up_while_no_worker_runs(settings):
    settings.TEST_INTERVAL = timedelta()
    for _ in range(30):
        change(due_at=ago(seconds=1))
        ask_for_due_jobs(woken={NAME})

    assert OrmQ.objects.count() == 1


def test_tasks_do_not_pile_up_while_a_run_takes_long():
    ask_for_due_jobs()
    OrmQ.objects.all().delete()
    change(asked_at=None, due_at=ago(hours=1), holder="a worker", expires_at=Now() + LONG)

    assert ask_for_due_jobs()[0] == set()
    assert not OrmQ.objects.exists()


def test_a_waiting_task_keeps_its_place_in_the_queue():
    ask_for_due_jobs()
    task = OrmQ.objects.get().pk
    change(due_at=ago(seconds=1))

    ask_for_due_jobs()

    assert OrmQ.objects.get().pk == task
    assert row().due_at > database_now()


def test_work_counts_as_asked_for_since_it_was_first_asked_for():
    """The watchdog recognises a frozen cluster by this time."""
    ask_for_due_jobs()
    change(asked_at=ago(minutes=1), due_at=ago(seconds=1))
    asked_at = row().asked_at

    ask_for_due_jobs()
    assert row().asked_at == asked_at

    a_worker_takes_the_task()
    change(due_at=ago(seconds=1))
    ask_for_due_jobs()
    assert row().asked_at == asked_at


def test_a_lost_task_is_queued_again():
    ask_for_due_jobs()
    taken = OrmQ.objects.get()
    a_worker_takes_the_task()
    change(due_at=ago(seconds=1))

    ask_for_due_jobs()

    assert OrmQ.objects.get().pk != taken.pk


def test_a_task_that_vanished_is_queued_again():
    ask_for_due_jobs()
    OrmQ.objects.all().delete()
    change(due_at=ago(seconds=1))

    ask_for_due_jobs()

    assert OrmQ.objects.count() == 1


def test_a_task_that_was_just_taken_is_not_taken_for_lost():
    ask_for_due_jobs()
    a_worker_takes_the_task()

    assert ask_for_due_jobs(woken={NAME})[0] == set()
    assert OrmQ.objects.count() == 1


def test_a_run_that_died_is_asked_for_again_and_its_task_withdrawn():
    ask_for_due_jobs()
    dead = OrmQ.objects.get().pk
    a_worker_takes_the_task()
    acquire_lease(NAME, ttl=LONG, if_asked=True)
    change(expires_at=ago(seconds=1), due_at=ago(seconds=1))

    assert ask_for_due_jobs()[0] == {NAME}
    assert OrmQ.objects.get().pk != dead


def test_a_run_that_died_is_due_again_though_nothing_else_wakes_it():
    ask([KEY])
    acquire_lease(KEY, ttl=LONG, if_asked=True)

    assert row(KEY).due_at is not None


def test_a_run_that_died_after_another_wake_is_asked_for_again():
    ask([KEY])
    acquire_lease(KEY, ttl=LONG, if_asked=True)
    ask([KEY])
    assert row(KEY).wanted
    Lease.objects.filter(key=KEY).update(expires_at=ago(seconds=1))

    assert ask([KEY]) == {KEY}


def test_a_wrong_clock_of_the_host_changes_nothing(monkeypatch):
    ask_for_due_jobs()
    finish_waiting_task()
    a_year_on = timezone.now() + timedelta(days=365)
    monkeypatch.setattr("django.utils.timezone.now", lambda: a_year_on)

    assert ask_for_due_jobs()[0] == set()


@pytest.mark.parametrize("asked_at", [None, ago(hours=1)])
def test_a_receipt_from_the_time_with_redis_stops_no_job(asked_at):
    Lease.objects.create(
        key=NAME, receipt="eyJ0YXNr:signed", asked_at=asked_at, due_at=ago(hours=1)
    )
    ask_for_due_jobs()
    assert row().receipt.isdecimal()


def test_work_of_another_version_is_left_alone_and_does_not_hurry_the_ticker():
    Lease.objects.create(key="forgotten work", due_at=ago(hours=1))
    ask_for_due_jobs()
    finish_waiting_task()

    asked, pause = ask_for_due_jobs()

    assert asked == set()
    assert pause == timedelta(seconds=1)
    assert row("forgotten work").due_at is not None


# --- Asking for jobs of a kind ---


def test_it_asks_for_a_job_that_is_woken_for_the_first_time():
    ask_for_due_jobs()

    assert ask_for_due_jobs(woken={KEY})[0] == {KEY}
    assert keys_of_tasks() == [KEY, NAME]


def test_jobs_of_a_kind_have_a_lane_of_their_own():
    ask_for_due_jobs(woken={KEY})

    lanes = {task.task["args"][0]: task.key for task in OrmQ.objects.all()}
    assert lanes == {NAME: "botpool", KEY: "botpool:slot"}


def test_a_job_that_waits_for_its_worker_is_not_asked_for_twice():
    assert ask([KEY]) == {KEY}
    assert ask([KEY]) == set()
    assert keys_of_tasks() == [KEY]


def test_it_asks_for_a_job_when_it_is_due():
    ask_for_due_jobs()
    Lease.objects.create(key=KEY, due_at=ago(seconds=1))

    assert ask_for_due_jobs()[0] == {KEY}


def test_a_job_without_a_due_time_is_not_asked_for():
    ask_for_due_jobs()
    Lease.objects.create(key=KEY)

    assert ask_for_due_jobs()[0] == set()


@pytest.mark.parametrize("key", ["", "slot", "slot:", "slot:x", "slot:-1", "bot:7", "ticker"])
def test_unknown_keys_are_ignored(key):
    assert ask([key]) == set()
    assert not jobs.run(key)
    assert not Lease.objects.exists()
    assert not OrmQ.objects.exists()


def test_tasks_are_queued_with_the_change_that_needs_them_or_not_at_all():
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        ask([KEY])
        raise ZeroDivisionError

    assert not OrmQ.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_row_that_another_transaction_holds_is_not_waited_for_but_woken_again():
    lease = acquire_lease(KEY, ttl=LONG)
    with listening(WAKE_CHANNEL) as notices, lease.fenced():
        [asked] = at_once([lambda: ask([KEY, "slot:8"])])

        assert asked == {"slot:8"}
        assert notices() == [KEY]


# --- Waking ---


@pytest.mark.django_db(transaction=True)
def test_a_wake_is_heard_once_its_transaction_commits():
    with listening(WAKE_CHANNEL) as notices:
        with transaction.atomic():
            wake([KEY, NAME])
            assert notices() == []
        assert notices() == [KEY, NAME]


@pytest.mark.django_db(transaction=True)
def test_a_wake_that_is_rolled_back_is_not_heard():
    with listening(WAKE_CHANNEL) as notices:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            wake([KEY])
            raise ZeroDivisionError
        assert notices() == []


# --- Running ---


def test_a_run_leaves_its_times():
    ask_for_due_jobs()

    assert jobs.run(NAME)

    assert runs == [NAME]
    done = row()
    assert done.asked_at is None and done.holder == ""
    assert done.acquired_at <= done.finished_at
    assert done.duration >= timedelta()


def test_the_handler_of_a_kind_gets_the_id():
    ask([KEY])

    assert jobs.run(KEY)

    assert runs == [7]


def test_the_answer_of_a_handler_sets_when_the_job_is_due():
    ask([KEY])
    answers.append(timedelta(minutes=3))

    jobs.run(KEY)

    wait = row(KEY).due_at - database_now()
    assert timedelta(minutes=2) < wait <= timedelta(minutes=3)


def test_a_handler_without_an_answer_waits_to_be_woken():
    Lease.objects.create(key=KEY, due_at=ago(seconds=1))
    ask([KEY])

    jobs.run(KEY)

    assert row(KEY).due_at is None


def test_a_superfluous_task_does_nothing():
    ask_for_due_jobs()
    jobs.run(NAME)

    assert not jobs.run(NAME)
    assert runs == [NAME]


def test_work_that_is_no_longer_in_the_list_is_left_alone():
    assert not jobs.run("forgotten work")


def test_a_failed_run_leaves_its_error_and_comes_again(monkeypatch):
    failing = Work(name=NAME, function=f"{__name__}.fail", interval="TEST_INTERVAL")
    monkeypatch.setattr("botpool.schedule.WORKS", (failing,))
    ask_for_due_jobs()

    with pytest.raises(ValueError, match="no such luck"):
        jobs.run(NAME)

    failed = row()
    assert failed.error == "ValueError: no such luck"
    assert failed.failed_at is not None and failed.finished_at is None
    assert failed.holder == ""
    assert failed.due_at == failed.acquired_at + timedelta(hours=1)


def test_a_failing_handler_comes_again_soon(settings):
    handle_with(settings, fail)
    ask([KEY])

    with pytest.raises(ValueError, match="no such luck"):
        jobs.run(KEY)

    assert row(KEY).error == "ValueError: no such luck"
    assert row(KEY).due_at == row(KEY).acquired_at + timedelta(seconds=5)


class TimeIsUp(BaseException):
    """As django-q2 raises it in the middle of a task."""


def end_in_a_statement(number: int, lease: HeldLease) -> None:
    def interrupt(*_: object) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        fetch_one("SELECT pg_sleep(60)", [])
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.django_db(transaction=True)
def test_a_run_that_ends_in_the_middle_of_a_statement_leaves_its_error(settings):
    handle_with(settings, end_in_a_statement)
    ask([KEY])

    with pytest.raises(TimeIsUp):
        jobs.run(KEY)

    assert row(KEY).error == "TimeIsUp: "
    assert row(KEY).holder == ""


def test_the_pauses_of_a_handler_that_fails_again_and_again_grow(settings):
    handle_with(settings, fail)
    pauses = [_fail_and_pause() for _ in range(6)]
    assert [pause.total_seconds() for pause in pauses] == [5, 10, 20, 40, 60, 60]


def test_after_a_run_that_succeeds_the_pauses_begin_again(settings):
    handle_with(settings, fail)
    assert [_fail_and_pause() for _ in range(3)][-1] == timedelta(seconds=20)
    handle_with(settings, record_id)
    ask([KEY])
    jobs.run(KEY)
    handle_with(settings, fail)
    assert _fail_and_pause() == timedelta(seconds=5)


def _fail_and_pause() -> timedelta:
    change(asked_at=None)
    ask([KEY])
    with pytest.raises(ValueError, match="no such luck"):
        jobs.run(KEY)
    return row(KEY).due_at - row(KEY).acquired_at


def test_a_run_that_succeeds_clears_the_error():
    ask([KEY])
    change(error="ValueError: no such luck", failed_at=Now())

    jobs.run(KEY)

    assert row(KEY).error == ""
    assert row(KEY).failed_at is not None


def test_a_run_that_lost_its_lease_does_not_record_its_result(settings):
    handle_with(settings, lose_the_lease)
    ask([KEY])

    jobs.run(KEY)

    assert row(KEY).holder != ""
    assert row(KEY).finished_at is None


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_at_once_one_runs_it():
    ask_for_due_jobs()

    ran = at_once([lambda: jobs.run(NAME)] * 8)

    assert sorted(ran) == [False] * 7 + [True]
    assert runs == [NAME]


def test_the_list_names_functions_and_settings_that_exist(settings, monkeypatch):
    monkeypatch.undo()
    from django.utils.module_loading import import_string

    assert len({work.name for work in jobs.works()}) == len(jobs.works())
    for work in jobs.works():
        assert callable(import_string(work.function))
        assert work.pause > timedelta()


def test_every_kind_has_a_handler_that_exists():
    from django.utils.module_loading import import_string

    from botpool import settings

    for handler in settings.JOB_HANDLERS.values():
        assert callable(import_string(handler))


# --- Woken while it runs ---


def test_a_job_woken_while_it_runs_is_run_again_afterwards(settings):
    handle_with(settings, wake_it_meanwhile)
    ask_for_due_jobs(woken={KEY})
    jobs.run(KEY)
    handle_with(settings, record_id)

    assert ask_for_due_jobs()[0] == {KEY}
    assert jobs.run(KEY)
    assert runs == [7, 7]
    assert ask_for_due_jobs()[0] == set()


@pytest.mark.django_db(transaction=True)
def test_a_job_woken_while_it_runs_wakes_the_ticker_when_its_lease_is_released(settings):
    handle_with(settings, wake_it_meanwhile)
    ask([KEY])

    with listening(WAKE_CHANNEL) as notices:
        jobs.run(KEY)
        assert notices() == [KEY]


@pytest.mark.django_db(transaction=True)
def test_a_job_that_is_not_woken_while_it_runs_wakes_no_ticker():
    ask([KEY])

    with listening(WAKE_CHANNEL) as notices:
        jobs.run(KEY)
        assert notices() == []


def test_a_job_woken_while_another_process_holds_its_lease_is_asked_for_afterwards():
    ask_for_due_jobs()
    with holding_lease(KEY, ttl=LONG):
        assert ask_for_due_jobs(woken={KEY})[0] == set()

    assert ask_for_due_jobs()[0] == {KEY}


def test_a_task_that_comes_while_another_process_holds_the_lease_is_queued_again():
    ask_for_due_jobs(woken={KEY})
    with holding_lease(KEY, ttl=LONG):
        assert not jobs.run(KEY)
    OrmQ.objects.all().delete()

    assert ask_for_due_jobs()[0] == {KEY}
    assert jobs.run(KEY)


def test_a_task_stays_good_when_another_process_held_the_lease_before_it_came():
    ask([KEY])
    with holding_lease(KEY, ttl=LONG):
        pass

    assert jobs.run(KEY)
    assert runs == [7]


def test_a_wake_for_a_dead_worker_outlives_another_holder():
    ask_for_due_jobs(woken={KEY})
    acquire_lease(KEY, ttl=LONG, if_asked=True)
    ask([KEY])
    Lease.objects.filter(key=KEY).update(expires_at=ago(seconds=1))
    release_lease(acquire_lease(KEY, ttl=LONG))

    assert ask_for_due_jobs()[0] == {KEY}
