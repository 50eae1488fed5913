"""What went wrong in the queues of systems like this one, a test for each case."""

from datetime import timedelta

import pytest

from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool.drain import drain
from pool.lifecycle import end_bot
from pool.sweep import sweep_queue
from queues.models import QueueEntry
from slots.models import Slot
from tests.concurrency import at_once
from tests.factories import SlotFactory
from tests.invariants import broken_rules
from tests.queued import ask, pool_of, status_of, statuses

pytestmark = pytest.mark.django_db(transaction=True)

MEET = Platform.GOOGLE_MEET


def test_two_drains_at_once_took_the_same_waiter_and_the_slot_was_held_for_ever(settings):
    pool_of(settings, 0)
    bot = ask()
    SlotFactory.create_batch(2)
    pool_of(settings, 2)
    given = at_once([lambda: drain(MEET)] * 2)
    assert sorted(len(slots) for slots in given) == [0, 1]
    assert (status_of(bot), Slot.objects.filter(status="idle").count()) == ("DEPLOYING", 1)
    assert broken_rules() == []


def test_a_cancelled_bot_stayed_in_the_queue_and_was_deployed_all_the_same(settings):
    pool_of(settings, 0)
    bot = ask()
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "client"))
    assert not QueueEntry.objects.exists()
    slot = SlotFactory()
    assert drain(MEET) == []
    slot.refresh_from_db()
    assert (status_of(bot), slot.status) == ("CANCELLED", "idle")


def test_newcomers_overtook_waiters_whenever_a_slot_happened_to_be_free(settings):
    pool_of(settings, 0)
    waiters = [ask(), ask()]
    SlotFactory()
    newcomers = [ask(), ask()]
    assert statuses(*waiters, *newcomers) == ["DEPLOYING", "QUEUED", "QUEUED", "QUEUED"]


def test_the_callers_own_timeout_was_ignored_and_expired_waiters_were_never_removed(settings):
    pool_of(settings, 0)
    hasty, patient = ask(queue_timeout=timedelta(milliseconds=1)), ask()
    sweep_queue()
    assert statuses(hasty, patient) == ["FAILED", "QUEUED"]
    assert [entry.bot for entry in QueueEntry.objects.all()] == [patient]


def test_everything_that_waited_in_memory_was_lost_at_a_restart(settings):
    """Every accepted bot is a row; test_queue_processes.py kills the process."""
    pool_of(settings, 0)
    bots = [ask() for _ in range(3)]
    entries = QueueEntry.objects.order_by("turn").values_list("bot_id", flat=True)
    assert list(entries) == [bot.pk for bot in bots]


@pytest.mark.parametrize("platform", Platform.values)
def test_exhaustion_answered_429_in_one_place_and_403_in_another(settings, platform):
    """An exhausted pool is never an error: the bot waits, whatever the cause."""
    pool_of(settings, 0)
    assert [ask(platform).status for _ in range(2)] == ["QUEUED", "QUEUED"]
