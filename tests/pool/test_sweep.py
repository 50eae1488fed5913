from datetime import timedelta
from itertools import chain

import pytest

from bots.models import Bot
from bots.status import Platform
from pool.sweep import expire_waiters, sweep_queue
from queues.models import QueueEntry
from tests.concurrency import at_once
from tests.factories import SlotFactory
from tests.invariants import broken_rules
from tests.queued import ask, pool_of, status_of, statuses, time_passes

pytestmark = pytest.mark.django_db


def test_a_waiter_whose_time_is_up_fails_and_leaves_the_line(settings):
    pool_of(settings, 0)
    bot = ask(queue_timeout=timedelta(seconds=90))
    time_passes(bot, seconds=90)
    assert expire_waiters() == [bot.pk]
    bot.refresh_from_db()
    assert (bot.status, bot.failure_kind) == ("FAILED", "infrastructure")
    assert bot.failure_reason == "waited 90 s in the queue, no slot became free"
    assert not QueueEntry.objects.exists()
    entry = bot.events.latest("id")
    assert (entry.from_status, entry.to_status, entry.actor) == ("QUEUED", "FAILED", "queue")


def test_each_has_a_timeout_of_its_own(settings):
    pool_of(settings, 0)
    hasty, patient = ask(queue_timeout=timedelta(seconds=5)), ask()
    for bot in (hasty, patient):
        time_passes(bot, seconds=5)
    expire_waiters()
    assert statuses(hasty, patient) == ["FAILED", "QUEUED"]


def test_no_waiter_fails_a_second_too_early(settings):
    pool_of(settings, 0)
    bot = ask(queue_timeout=timedelta(seconds=300))
    time_passes(bot, seconds=240)
    assert expire_waiters() == []
    time_passes(bot, seconds=60)
    assert expire_waiters() == [bot.pk]


def test_a_free_slot_does_not_save_an_expired_waiter(settings):
    pool_of(settings, 0)
    late, waiter = ask(queue_timeout=timedelta(microseconds=1)), ask()
    SlotFactory()
    swept = sweep_queue()
    assert (swept.expired, [slot.assigned_bot_id for slot in swept.given]) == (
        [late.pk],
        [waiter.pk],
    )


def test_one_sweep_expires_all_however_many(settings):
    pool_of(settings, 0)
    for _ in range(120):
        ask(Platform.ZOOM, queue_timeout=timedelta(microseconds=1))
    assert len(sweep_queue().expired) == 120
    assert broken_rules() == []


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_expire_each_waiter_once(settings):
    pool_of(settings, 0)
    bots = [ask(queue_timeout=timedelta(microseconds=1)) for _ in range(40)]
    expired = list(chain.from_iterable(at_once([expire_waiters] * 4)))
    assert sorted(expired) == sorted(bot.pk for bot in bots)
    assert set(Bot.objects.values_list("status", flat=True)) == {"FAILED"}
    assert broken_rules() == []


@pytest.mark.django_db(transaction=True)
def test_the_queue_sweep_is_part_of_the_periodic_work(settings):
    from botpool.schedule import WORKS
    from core.jobs.jobs import ask_for_due_jobs, run
    from core.leases import Lease

    pool_of(settings, 0)
    bot = ask(queue_timeout=timedelta(microseconds=1))
    ask_for_due_jobs()
    assert run("queue sweep")
    assert status_of(bot) == "FAILED"
    assert Lease.objects.get(key="queue sweep").error == ""
    assert next(w.interval for w in WORKS if w.name == "queue sweep") == "POLL_INTERVAL"
