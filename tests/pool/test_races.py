"""Many acquirers, releases and cancels at once, on real connections."""

from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import pytest
from django.db import IntegrityError

from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool import claim as claims
from pool.assign import assign_bot_to_slot
from pool.lifecycle import confirm_slot_stopped, end_bot, mark_slot_running, release_bot_from_slot
from pool.steering import fit_pools
from slots.models import Slot
from tests.concurrency import at_once
from tests.factories import BotFactory, SlotFactory
from tests.invariants import broken_rules

pytestmark = pytest.mark.django_db(transaction=True)


def assign(bot):
    return assign_bot_to_slot(bot, reason="Bot requested", actor="test")


def fifty_acquirers_on_an_empty_pool_of_twenty(settings):
    settings.MAX_POOL_SIZES = {Platform.GOOGLE_MEET: 20}
    fit_pools()  # a pool that has yet to be fitted to its size is locked by each claim
    bots = BotFactory.create_batch(50)
    return at_once([lambda bot=bot: assign(bot) for bot in bots])


def test_fifty_acquirers_on_an_empty_pool_of_twenty_make_slots_1_to_20_and_30_refusals(settings):
    results = fifty_acquirers_on_an_empty_pool_of_twenty(settings)
    assert sorted(slot.number for slot in results if slot) == list(range(1, 21))
    assert results.count(None) == 30
    assert broken_rules() == []


def test_without_the_advisory_lock_two_make_the_same_slot(settings, monkeypatch):
    together = Barrier(2)

    def no_lock(name):
        with suppress(BrokenBarrierError):
            together.wait(timeout=5)

    monkeypatch.setattr(claims, "advisory_lock", no_lock)
    results = fifty_acquirers_on_an_empty_pool_of_twenty(settings)
    assert any(isinstance(result, IntegrityError) for result in results)


def test_the_advisory_lock_of_one_platform_holds_up_no_other(settings):
    from django.db import transaction

    from core.locks import advisory_lock
    from pool.lock_names import GROW_POOL

    with transaction.atomic():
        advisory_lock(GROW_POOL.format(platform=Platform.ZOOM))
        [slot] = at_once([lambda: assign(BotFactory())])
    assert slot.name == "pool-google-meet-001"


def test_parallel_acquirers_never_share_an_idle_slot(settings):
    settings.MAX_POOL_SIZES = {Platform.GOOGLE_MEET: 10}
    SlotFactory.create_batch(10)
    fit_pools()
    bots = BotFactory.create_batch(20)
    results = at_once([lambda bot=bot: assign(bot) for bot in bots])
    taken = [slot.pk for slot in results if slot]
    assert len(taken) == len(set(taken)) == 10
    assert broken_rules() == []


def test_one_bot_assigned_by_many_at_once_gets_one_slot():
    SlotFactory.create_batch(8)
    bot = BotFactory()
    results = at_once([lambda: assign(bot)] * 8)
    assert len([slot for slot in results if isinstance(slot, Slot)]) == 1
    assert Slot.objects.filter(status="deploying").count() == 1
    assert broken_rules() == []


def test_of_many_releases_of_one_bot_one_does_it():
    slot = assign(BotFactory())
    mark_slot_running(slot, reason="Container runs", actor="test")
    done = Outcome(BotStatus.DONE, "Meeting over", "bot")
    results = at_once([lambda: release_bot_from_slot(slot, done)] * 8)
    assert results.count(True) == 1
    assert broken_rules() == []


def test_a_cancel_beside_an_assignment_never_leaves_a_cancelled_bot_in_a_slot():
    cancelled = Outcome(BotStatus.CANCELLED, "Not needed", "client")
    for _ in range(20):
        bot = BotFactory()
        at_once([lambda bot=bot: assign(bot), lambda bot=bot: end_bot(bot, cancelled)])
        assert broken_rules() == []
        for slot in Slot.objects.filter(status="stopping"):
            confirm_slot_stopped(slot, reason="Container gone", actor="test")
