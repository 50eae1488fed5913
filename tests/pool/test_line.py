import pytest

from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool.lifecycle import end_bot
from pool.line import change_priority, move_down, move_up
from queues.models import QueueEntry
from tests.factories import SlotFactory
from tests.invariants import broken_rules
from tests.queued import ask, line, pool_of, status_of, time_passes

pytestmark = pytest.mark.django_db

WHY = {"reason": "The board waits", "actor": "alice"}


@pytest.fixture(autouse=True)
def no_slots(settings):
    pool_of(settings, 0)


def test_another_priority_is_another_place():
    first, second, third = ask(), ask(), ask()
    assert change_priority(third, 1, **WHY)
    assert line() == [third, first, second]
    third.refresh_from_db()
    assert third.priority == QueueEntry.objects.get(bot=third).priority == 1


def test_a_change_of_priority_is_in_the_history_with_its_reason():
    bot = ask()
    change_priority(bot, 5, **WHY)
    entry = bot.events.latest("id")
    assert (entry.from_status, entry.to_status) == ("QUEUED", "QUEUED")
    assert (entry.reason, entry.actor) == ("Priority 100 → 5: The board waits", "alice")
    assert broken_rules() == []


def test_a_bot_that_does_not_wait_keeps_its_priority():
    bot = ask()
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    assert not change_priority(bot, 5, **WHY)
    bot.refresh_from_db()
    assert bot.priority == 100


@pytest.mark.parametrize("priority", [-1, 1001])
def test_a_priority_out_of_range_is_refused(priority):
    with pytest.raises(ValueError, match="0 to 1000"):
        change_priority(ask(), priority, **WHY)


def test_a_waiter_can_be_moved_up_and_down_by_one():
    a, b, c = ask(), ask(), ask()
    assert move_up(c, **WHY)
    assert line() == [a, c, b]
    assert move_down(a, **WHY)
    assert line() == [c, a, b]
    assert [e.reason for e in a.events.order_by("-id")[:1]] == [
        f"Moved down, behind Bot #{c.pk}: The board waits"
    ]
    assert [e.reason for e in c.events.order_by("-id")[:1]] == [
        f"Moved up, ahead of Bot #{a.pk}: The board waits"
    ]


def test_a_waiter_can_be_moved_past_one_of_another_priority():
    urgent, normal = ask(priority=1), ask()
    assert move_up(normal, **WHY)
    assert line() == [normal, urgent]


def test_the_first_cannot_be_moved_up_nor_the_last_down():
    first, last = ask(), ask()
    ask(Platform.ZOOM)
    assert not move_up(first, **WHY)
    assert not move_down(last, **WHY)
    assert line() == [first, last]


def test_a_low_priority_does_not_starve(settings):
    patient = ask(priority=100)
    time_passes(patient, seconds=200)
    newcomers = [ask(priority=0) for _ in range(3)]
    assert line() == [patient, *newcomers]


def test_priority_counts_until_the_other_has_waited_long_enough():
    patient = ask(priority=100)
    time_passes(patient, seconds=150)
    urgent = ask(priority=0)
    assert line() == [urgent, patient]


def test_two_waiters_never_change_places_by_themselves():
    low, high = ask(priority=100), ask(priority=50)
    before = line()
    for bot in (low, high):
        time_passes(bot, seconds=250)
    assert line() == before


@pytest.mark.django_db(transaction=True)
def test_a_waiter_moved_to_the_head_gets_the_free_slot(settings):
    first, second = ask(), ask()
    SlotFactory()
    change_priority(second, 0, **WHY)
    assert (status_of(first), status_of(second)) == ("QUEUED", "DEPLOYING")
