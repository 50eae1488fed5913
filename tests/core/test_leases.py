"""Leases, with real threads and processes beside each other."""

import multiprocessing
import os
import random
import signal
import threading
import time
from datetime import timedelta

import psutil
import pytest
from django.db import connection

from core.clock import database_now
from core.leases import (
    WAKE_CHANNEL,
    LeaseLost,
    LeaseNotAcquired,
    acquire_lease,
    break_lease,
    extend_lease,
    holding_lease,
    release_lease,
)
from slots.locks import with_status_lock
from slots.models import Lease, Slot
from tests.concurrency import at_once
from tests.factories import SlotFactory
from tests.notices import listening
from tests.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

FORK = multiprocessing.get_context("fork")
KEY = "test"
LONG, SHORT = timedelta(minutes=1), timedelta(milliseconds=200)


@pytest.fixture(autouse=True)
def quick_retries(settings):
    settings.LOCK_RETRY_COUNT = 10
    settings.LOCK_RETRY_DELAY = timedelta(milliseconds=20)
    settings.LOCK_RETRY_JITTER = timedelta(milliseconds=10)


def row():
    return Lease.objects.get(key=KEY)


def wait_for_expiry():
    wait_until(lambda: row().expires_at <= database_now(), what="the lease runs out")


# --- Taking and giving back ---


def test_of_many_at_once_one_gets_it():
    results = at_once([lambda: acquire_lease(KEY, ttl=LONG, tries=1) for _ in range(8)])
    refused = [each for each in results if isinstance(each, LeaseNotAcquired)]
    assert len(refused) == 7
    assert row().fence == 1


def test_a_waiting_process_gets_it_when_it_is_given_back(settings, monkeypatch):
    settings.LOCK_RETRY_COUNT = 1000
    first = acquire_lease(KEY, ttl=LONG)
    pause, somebody_waits = time.sleep, threading.Event()
    monkeypatch.setattr(
        "core.leases.time.sleep", lambda seconds: (somebody_waits.set(), pause(seconds))
    )

    def give_back():
        assert somebody_waits.wait(60)
        release_lease(first)
        connection.close()

    holder = threading.Thread(target=give_back)
    holder.start()
    second = acquire_lease(KEY, ttl=LONG)
    holder.join()
    assert second.fence == first.fence + 1
    assert (row().waits, row().takeovers) == (1, 0)


def test_it_gives_up_after_its_tries_and_counts_that(settings, monkeypatch):
    pauses = []
    monkeypatch.setattr("core.leases.time.sleep", pauses.append)
    acquire_lease(KEY, ttl=LONG)
    with pytest.raises(LeaseNotAcquired), holding_lease(KEY, ttl=LONG):
        pass
    assert len(pauses) == 10
    assert row().refusals == 1


def test_counting_a_refusal_does_not_wait_for_the_row():
    with acquire_lease(KEY, ttl=LONG).fenced():

        def try_it():
            with holding_lease(KEY, ttl=LONG, tries=1):
                pass

        [refused] = at_once([try_it])
        assert isinstance(refused, LeaseNotAcquired)
    assert row().refusals == 0


def test_the_pauses_are_as_set_give_or_take_the_jitter(settings, monkeypatch):
    settings.LOCK_RETRY_DELAY = timedelta(milliseconds=200)
    settings.LOCK_RETRY_JITTER = timedelta(milliseconds=100)
    settings.LOCK_RETRY_COUNT = 50
    pauses = []
    monkeypatch.setattr("core.leases.time.sleep", pauses.append)
    acquire_lease(KEY, ttl=LONG)
    with pytest.raises(LeaseNotAcquired):
        acquire_lease(KEY, ttl=LONG)
    assert all(0.1 <= pause <= 0.3 for pause in pauses)
    assert len(set(pauses)) > 25


def test_what_is_not_acquired_is_not_done():
    acquire_lease(KEY, ttl=LONG)
    done = []
    with pytest.raises(LeaseNotAcquired), holding_lease(KEY, ttl=LONG, tries=1):
        done.append("work")
    assert done == []


def test_leases_of_different_slots_do_not_hold_each_other_up():
    one, other = SlotFactory(), SlotFactory()
    with with_status_lock(one, tries=1) as first, with_status_lock(other, tries=1) as second:
        assert first.key != second.key


def test_it_is_given_back_when_the_work_fails():
    with pytest.raises(ZeroDivisionError), holding_lease(KEY, ttl=LONG):
        raise ZeroDivisionError
    assert row().holder == ""
    assert acquire_lease(KEY, ttl=LONG, tries=1)


def test_the_longest_hold_is_kept():
    with holding_lease(KEY, ttl=LONG):
        time.sleep(0.1)
    assert row().longest_hold >= timedelta(seconds=0.1)
    longer = timedelta(hours=1)  # than any hold here, however slow the machine
    Lease.objects.update(longest_hold=longer)
    with holding_lease(KEY, ttl=LONG):
        pass
    assert row().longest_hold == longer


# --- For a queued task ---


def test_it_is_taken_for_a_task_only_if_one_is_queued():
    with pytest.raises(LeaseNotAcquired):
        acquire_lease(KEY, ttl=LONG, tries=1, if_asked=True)
    assert not Lease.objects.exists()
    Lease.objects.create(key=KEY)
    with pytest.raises(LeaseNotAcquired):
        acquire_lease(KEY, ttl=LONG, tries=1, if_asked=True)


def test_taking_it_for_a_task_takes_the_task():
    Lease.objects.create(key=KEY, asked_at=database_now())
    assert acquire_lease(KEY, ttl=LONG, tries=1, if_asked=True)
    assert row().asked_at is None


def test_taking_it_for_something_else_leaves_the_task():
    Lease.objects.create(key=KEY, asked_at=database_now())
    release_lease(acquire_lease(KEY, ttl=LONG))
    assert row().asked_at is not None


def test_a_job_that_is_woken_meanwhile_is_due_when_it_is_given_back():
    lease = acquire_lease(KEY, ttl=LONG)
    Lease.objects.update(wanted=True)
    with listening(WAKE_CHANNEL) as notices:
        release_lease(lease)
        assert notices() == [KEY]
    assert row().due_at <= database_now()
    assert not row().wanted


def test_a_job_that_is_not_woken_keeps_its_due_time():
    due_at = database_now() + LONG
    Lease.objects.create(key=KEY, due_at=due_at)
    with listening(WAKE_CHANNEL) as notices:
        release_lease(acquire_lease(KEY, ttl=LONG))
        assert notices() == []
    assert row().due_at == due_at


def test_a_process_that_lost_it_wakes_no_job_when_it_gives_it_back():
    late = acquire_lease(KEY, ttl=SHORT)
    wait_for_expiry()
    acquire_lease(KEY, ttl=LONG, tries=1)
    Lease.objects.update(wanted=True)
    with listening(WAKE_CHANNEL) as notices:
        release_lease(late)
        assert notices() == []
    assert row().wanted


# --- Expiry, by the database's clock ---


def test_after_its_expiry_another_takes_over_and_the_fence_rises():
    first = acquire_lease(KEY, ttl=SHORT)
    wait_for_expiry()
    second = acquire_lease(KEY, ttl=LONG, tries=1)
    assert second.fence == first.fence + 1
    assert row().takeovers == 1


def test_before_its_expiry_no_process_takes_over():
    acquire_lease(KEY, ttl=LONG)
    with pytest.raises(LeaseNotAcquired):
        acquire_lease(KEY, ttl=LONG, tries=3)
    assert row().takeovers == 0


def test_the_clock_of_this_host_does_not_matter(monkeypatch):
    acquire_lease(KEY, ttl=LONG)
    monkeypatch.setattr(time, "time", lambda: 10_000_000_000.0)
    with pytest.raises(LeaseNotAcquired):
        acquire_lease(KEY, ttl=LONG, tries=1)


def test_work_that_takes_longer_than_the_lease_keeps_it():
    with holding_lease(KEY, ttl=timedelta(seconds=5)) as lease:
        first_end = row().expires_at
        while database_now() < first_end + timedelta(milliseconds=500):
            time.sleep(0.15)
            with pytest.raises(LeaseNotAcquired):
                acquire_lease(KEY, ttl=LONG, tries=1)
        lease.check()
        with lease.fenced():
            pass
    assert row().takeovers == 0


def test_one_that_is_extended_lasts_longer():
    lease = acquire_lease(KEY, ttl=SHORT)
    extend_lease(lease, LONG)
    time.sleep(0.3)
    with pytest.raises(LeaseNotAcquired):
        acquire_lease(KEY, ttl=LONG, tries=1)


# --- The fence ---


def test_a_process_that_lost_it_writes_nothing():
    slot = SlotFactory()
    late = acquire_lease(KEY, ttl=SHORT)
    wait_for_expiry()
    acquire_lease(KEY, ttl=LONG, tries=1)
    with pytest.raises(LeaseLost), late.fenced():
        Slot.objects.update(error="written by a ghost")
    slot.refresh_from_db()
    assert slot.error == ""


def test_an_expired_lease_is_lost_even_if_no_process_has_taken_it():
    late = acquire_lease(KEY, ttl=SHORT)
    wait_for_expiry()
    with pytest.raises(LeaseLost), late.fenced():
        pass


def test_no_process_takes_it_over_during_a_fenced_write():
    holder = acquire_lease(KEY, ttl=timedelta(seconds=3))  # enough time to begin the write
    with holder.fenced():
        wait_for_expiry()
        [refused] = at_once([lambda: acquire_lease(KEY, ttl=LONG, tries=1)])
        assert isinstance(refused, LeaseNotAcquired)  # without waiting
    assert acquire_lease(KEY, ttl=LONG, tries=1).fence == holder.fence + 1


def test_a_late_release_does_not_free_the_lease_of_the_next_holder():
    late = acquire_lease(KEY, ttl=SHORT)
    wait_for_expiry()
    acquire_lease(KEY, ttl=LONG, tries=1)
    release_lease(late)
    assert row().holder != ""


def test_a_late_extension_finds_out_that_it_is_lost():
    late = acquire_lease(KEY, ttl=SHORT)
    wait_for_expiry()
    acquire_lease(KEY, ttl=LONG, tries=1)
    with pytest.raises(LeaseLost):
        extend_lease(late)
    with pytest.raises(LeaseLost):
        late.check()


def test_an_operator_can_break_it_and_the_holder_finds_out():
    holder = acquire_lease(KEY, ttl=LONG)
    assert break_lease(KEY)
    with pytest.raises(LeaseLost), holder.fenced():
        pass
    assert acquire_lease(KEY, ttl=LONG, tries=1).fence > holder.fence
    assert not break_lease("unused")


# --- Processes ---


def count_up(rounds):
    """Add to a number under the lease, in the worst way: read, pause, write."""
    for _ in range(rounds):
        with holding_lease(KEY, ttl=LONG, tries=100_000):
            slot = Slot.objects.get()
            time.sleep(random.uniform(0, 0.005))
            Slot.objects.update(stop_attempts=slot.stop_attempts + 1)
    connection.close()


def start(job, *arguments):
    connection.close()  # a forked connection would be shared
    process = FORK.Process(target=job, args=arguments)
    process.start()
    return process


@pytest.mark.slow
def test_work_of_many_processes_under_one_lease_never_overlaps():
    SlotFactory()
    for process in [start(count_up, 10) for _ in range(4)]:
        process.join(120)
        assert process.exitcode == 0
    assert Slot.objects.get().stop_attempts == 40
    assert row().fence == 40
    assert (row().refusals, row().takeovers) == (0, 0)


def freeze_and_write(frozen, outcome):
    """Take the lease, be frozen, and write after waking up."""
    with pytest.raises(LeaseLost), holding_lease(KEY, ttl=timedelta(milliseconds=300)) as lease:
        frozen.set()
        os.kill(os.getpid(), signal.SIGSTOP)
        with lease.fenced():
            Slot.objects.update(error="written by a ghost")
    outcome.set()
    connection.close()


@pytest.mark.slow
def test_a_holder_that_was_frozen_longer_than_its_lease_has_its_write_refused():
    SlotFactory()
    frozen, outcome = FORK.Event(), FORK.Event()
    process = start(freeze_and_write, frozen, outcome)
    assert frozen.wait(60)
    status = psutil.Process(process.pid).status
    wait_until(lambda: status() == psutil.STATUS_STOPPED, what="it is frozen")
    wait_for_expiry()
    acquire_lease(KEY, ttl=LONG, tries=1)
    os.kill(process.pid, signal.SIGCONT)
    process.join(60)
    assert (process.exitcode, outcome.is_set()) == (0, True)
    assert Slot.objects.get().error == ""
    assert row().takeovers == 1


def take_and_wait(taken):
    acquire_lease(KEY, ttl=SHORT)
    taken.set()
    time.sleep(120)


@pytest.mark.slow
def test_the_lease_of_a_killed_holder_is_taken_over_once_it_expires():
    taken = FORK.Event()
    process = start(take_and_wait, taken)
    assert taken.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    with holding_lease(KEY, ttl=LONG, tries=10_000):
        assert row().takeovers == 1
