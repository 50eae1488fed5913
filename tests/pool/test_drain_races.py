"""Many drains, requests, cancels and expiries at once, on real connections."""

import random
import threading
from datetime import timedelta

import pytest
from django.db import transaction

from bots.models import Bot
from bots.moves import Outcome, lock_bot
from bots.status import BotStatus, Platform
from core.sql import fetch_all
from pool import drain as drain_module
from pool.drain import drain
from pool.lifecycle import confirm_slot_stopped, end_bot, release_bot_from_slot
from pool.sweep import sweep_queue
from queues.models import QueueEntry
from slots.models import Slot
from slots.moves import SlotMove, move_slot
from slots.status import SlotStatus
from tests.concurrency import all_at_once, at_once
from tests.factories import SlotFactory
from tests.invariants import broken_rules
from tests.queued import ask, leave, line, pool_of, served_in_order, status_of, statuses

pytestmark = pytest.mark.django_db(transaction=True)

MEET = Platform.GOOGLE_MEET
CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "client")


def two_drains_of_one_slot(monkeypatch):
    """The first drain has locked the head of the line when the second one comes."""
    has_the_head, other_is_done = threading.Event(), threading.Event()
    assign = drain_module.assign_bot_to_slot

    def held_up(bot, **why):
        if not has_the_head.is_set():
            has_the_head.set()
            assert other_is_done.wait(60)
        return assign(bot, **why)

    def second():
        assert has_the_head.wait(60)
        drain(MEET)
        other_is_done.set()

    monkeypatch.setattr(drain_module, "assign_bot_to_slot", held_up)
    all_at_once([lambda: drain(MEET), second])


def test_two_drains_at_once_give_the_only_slot_to_the_first_in_line(settings, monkeypatch):
    pool_of(settings, 0)
    first, second = ask(), ask()
    SlotFactory()
    two_drains_of_one_slot(monkeypatch)
    assert statuses(first, second) == ["DEPLOYING", "QUEUED"]


def test_without_the_locks_the_second_in_line_gets_it(settings, monkeypatch):
    monkeypatch.setattr(drain_module, "advisory_lock_within", lambda patience, name: None)
    monkeypatch.setattr(drain_module, "advisory_lock", lambda name: None)
    pool_of(settings, 0)
    first, second = ask(), ask()
    SlotFactory()
    two_drains_of_one_slot(monkeypatch)
    assert statuses(first, second) == ["QUEUED", "DEPLOYING"]


def drain_while_another_transaction_has_locked(bot, *, until_it_waits):
    """… and commits once the drain waits for it, or only after the drain."""
    is_locked, drained = threading.Event(), threading.Event()

    def other():
        with transaction.atomic():
            lock_bot(bot.pk)
            is_locked.set()
            while not drained.wait(0.02) and not (until_it_waits and _somebody_waits_for_a_row()):
                pass

    def serve():
        assert is_locked.wait(60)
        drain(MEET)
        drained.set()

    all_at_once([other, serve])


def _somebody_waits_for_a_row():
    [(waiting,)] = fetch_all(
        "SELECT count(*) FROM pg_locks"
        " WHERE NOT granted AND locktype IN ('tuple', 'transactionid')",
        {},
    )
    return waiting > 0


def test_a_waiter_that_is_locked_for_a_moment_keeps_its_turn(settings, monkeypatch):
    monkeypatch.setattr(drain_module, "PATIENCE", timedelta(seconds=60))
    pool_of(settings, 0)
    first, second = ask(), ask()
    SlotFactory()
    drain_while_another_transaction_has_locked(first, until_it_waits=True)
    assert statuses(first, second) == ["DEPLOYING", "QUEUED"]


def test_a_waiter_that_stays_locked_holds_up_no_other(settings, monkeypatch):
    monkeypatch.setattr(drain_module, "PATIENCE", timedelta(milliseconds=100))
    pool_of(settings, 0)
    first, second, third = ask(), ask(), ask()
    SlotFactory.create_batch(2)
    drain_while_another_transaction_has_locked(first, until_it_waits=False)
    assert statuses(first, second, third) == ["QUEUED", "DEPLOYING", "DEPLOYING"]


def test_a_slot_that_comes_free_behind_a_drains_back_is_not_missed(settings, monkeypatch):
    """One drain has found nothing and has not committed; then a slot comes free."""
    monkeypatch.setattr(drain_module, "PATIENCE", timedelta(seconds=60))
    monkeypatch.setattr(drain_module, "_worth_a_try", lambda platform: True)
    pool_of(settings, 1)
    holder, waiter = ask(), ask()
    found_nothing, slot_is_free = threading.Event(), threading.Event()
    serve_next = drain_module._serve_next

    def held_up(*line):
        served = serve_next(*line)
        if not found_nothing.is_set():
            found_nothing.set()
            assert slot_is_free.wait(60)
        return served

    monkeypatch.setattr(drain_module, "_serve_next", held_up)

    def free_the_slot():
        assert found_nothing.wait(60)
        # The drain that follows waits for the first one: let that one continue a little later.
        threading.Timer(0.3, slot_is_free.set).start()
        leave(holder)

    all_at_once([lambda: drain_module._serve_some(MEET), free_the_slot])
    assert status_of(waiter) == "DEPLOYING"


def test_a_stuck_drain_holds_others_up_only_for_a_moment(settings, monkeypatch):
    monkeypatch.setattr(drain_module, "PATIENCE", timedelta(milliseconds=50))
    pool_of(settings, 0)
    waiter = ask()
    SlotFactory()
    stuck, others_went_on = threading.Event(), threading.Event()
    serve_next = drain_module._serve_next

    def sticks(*line):
        if not stuck.is_set():
            stuck.set()
            assert others_went_on.wait(60)
        return serve_next(*line)

    def newcomer():
        assert stuck.wait(60)
        bot = ask()
        others_went_on.set()
        return bot

    monkeypatch.setattr(drain_module, "_serve_next", sticks)
    _, bot = at_once([lambda: drain(MEET), newcomer])
    assert statuses(waiter, bot) == ["DEPLOYING", "QUEUED"]


def test_a_waiter_cancelled_at_the_same_moment_is_served_or_cancelled_and_never_both(settings):
    pool_of(settings, 0)
    bots = [ask() for _ in range(30)]
    SlotFactory.create_batch(30)
    pool_of(settings, 30)
    cancels = [lambda bot=bot: end_bot(bot, CANCELLED) for bot in bots[::2]]
    results = at_once([*cancels, lambda: drain(MEET), lambda: drain(MEET)])
    assert not [r for r in results if isinstance(r, Exception)]
    drain(MEET)
    assert {status_of(bot) for bot in bots[::2]} == {"CANCELLED"}
    assert {status_of(bot) for bot in bots[1::2]} == {"DEPLOYING"}
    assert broken_rules() == []


def test_many_drains_at_once_serve_each_once_and_in_order(settings):
    pool_of(settings, 0)
    waiting = [ask(priority=priority).pk for priority in random.sample(range(1000), 60)]
    in_order = [bot.pk for bot in line()]
    SlotFactory.create_batch(45)
    all_at_once([lambda: drain(MEET)] * 8)
    assert sorted(waiting) == sorted(in_order)
    assert served_in_order() == in_order[:45]


def test_a_drain_and_an_urgent_newcomer_that_grow_the_pool_do_not_deadlock(settings, monkeypatch):
    """While a drain holds the only idle slot, room for one more appears, which both want."""
    pool_of(settings, 0)
    waiters = [ask(), ask()]
    SlotFactory()
    stopping = SlotFactory(status="stopping", previous_status="busy", coolify_uuid="")
    pool_of(settings, 2)
    has_a_slot, newcomer_waits = threading.Event(), threading.Event()
    serve_next = drain_module._serve_next

    def held_up(*line):
        served = serve_next(*line)
        if not has_a_slot.is_set():
            has_a_slot.set()
            assert newcomer_waits.wait(60)
        return served

    def make_room_and_come():
        assert has_a_slot.wait(60)
        assert move_slot(stopping, SlotMove(to=SlotStatus.IDLE, reason="Gone", actor="test"))
        # Time enough for the newcomer to wait for what the drain holds.
        threading.Timer(0.7, newcomer_waits.set).start()
        return ask(priority=0)

    monkeypatch.setattr(drain_module, "_serve_next", held_up)
    given, newcomer = at_once([lambda: drain(MEET), make_room_and_come])
    assert not isinstance(given, Exception), given
    assert not isinstance(newcomer, Exception), newcomer
    assert status_of(waiters[0]) == "DEPLOYING"
    assert sorted(statuses(waiters[1], newcomer)) == ["DEPLOYING", "QUEUED"]


def storm(seed):
    """One user of the pool who does everything possible, in any order."""
    rng = random.Random(seed)

    def come():
        ask(priority=rng.choice((1, 100, 100)))

    def come_in_a_hurry():
        ask(queue_timeout=timedelta(milliseconds=rng.randrange(1, 20)))

    def go():
        slot = Slot.objects.filter(assigned_bot__isnull=False).order_by("?").first()
        if slot is not None and release_bot_from_slot(slot, CANCELLED):
            slot.refresh_from_db()
            confirm_slot_stopped(slot, reason="Container gone", actor="test")

    def cancel():
        bot = Bot.objects.filter(status="QUEUED").order_by("?").first()
        if bot is not None:
            end_bot(bot, CANCELLED)

    for _ in range(25):
        rng.choice((come, come, come, come_in_a_hurry, go, go, cancel, sweep_queue))()


def test_a_storm_of_all_at_once_loses_and_strands_no_bot(settings):
    pool_of(settings, 5)
    results = at_once([lambda seed=seed: storm(seed) for seed in range(8)])
    assert results == [None] * 8
    sweep_queue()
    assert broken_rules() == []
    free = 5 - Slot.objects.filter(assigned_bot__isnull=False).count()
    free -= Slot.objects.filter(status="stopping").count()
    assert free == 0 or not QueueEntry.objects.exists()
