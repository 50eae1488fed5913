"""The line and its drains in separate processes, some of which are killed."""

import logging
import multiprocessing
import os
import signal
import time

import pytest
from django.db import connection, transaction

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool import drain as drain_module
from pool.drain import drain
from pool.lifecycle import confirm_slot_stopped, release_bot_from_slot
from pool.sweep import sweep_queue
from queues.models import QueueEntry
from slots.models import Slot
from tests.factories import SlotFactory
from tests.queued import line, many_wait, pool_of, served_in_order

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

FORK = multiprocessing.get_context("fork")
MEET = Platform.GOOGLE_MEET
CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "client")


def start(job):
    connection.close()  # a forked connection would be shared
    process = FORK.Process(target=job)
    process.start()
    return process


def finish(process):
    process.join(120)
    assert process.exitcode == 0


def bots_come_and_go():
    """Take bots out of their slots, to make room, until no bot waits."""
    logging.disable()
    drain(MEET)
    while QueueEntry.objects.exists():
        slot = Slot.objects.filter(status="deploying").order_by("?").first()
        if slot is not None and release_bot_from_slot(slot, CANCELLED):
            slot.refresh_from_db()
            confirm_slot_stopped(slot, reason="Container gone", actor="test")
    connection.close()


def test_a_thousand_waiters_and_a_hundred_slots_are_served_once_in_order_by_eight_processes(
    settings,
):
    pool_of(settings, 100)
    many_wait(1000)
    in_order = [bot.pk for bot in line()]
    SlotFactory.create_batch(100)
    for process in [start(bots_come_and_go) for _ in range(8)]:
        finish(process)
    assert served_in_order() == in_order
    assert len(set(in_order)) == 1000


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_drain_killed_or_frozen_in_the_middle_loses_no_bot_and_keeps_the_order(settings, end):
    pool_of(settings, 0)
    many_wait(15)
    in_order = [bot.pk for bot in line()]
    pool_of(settings, 15)
    SlotFactory.create_batch(15)
    reached, sticks = FORK.Event(), FORK.Event()

    def drain_and_stick():
        assign = drain_module.assign_bot_to_slot
        served = []

        def stick_at_the_third(bot, **why):
            if len(served) == 2:
                reached.set()
                sticks.wait(120)
            served.append(bot)
            return assign(bot, **why)

        drain_module.assign_bot_to_slot = stick_at_the_third
        drain(MEET)

    process = start(drain_and_stick)
    assert reached.wait(60)
    os.kill(process.pid, end)
    deadline = time.monotonic() + 60
    while len(served_in_order()) < 15 and time.monotonic() < deadline:
        sweep_queue()
    process.kill()
    process.join(60)
    assert served_in_order() == in_order


def test_waiters_outlive_every_process(settings):
    pool_of(settings, 1)

    def ask_twice_and_die():
        from tests.queued import ask

        ask()
        ask()
        with transaction.atomic():
            ask()  # not committed, so no client was told of this bot
            os.kill(os.getpid(), signal.SIGKILL)

    start(ask_twice_and_die).join(60)
    holder, waiter = Bot.objects.order_by("pk")
    assert (holder.status, waiter.status) == ("DEPLOYING", "QUEUED")
    assert line() == [waiter]
