from datetime import timedelta

import pytest
from django.utils import timezone

from bots.moves import Outcome
from bots.status import BotStatus, Platform
from core.prepared import Prepared
from pool.lifecycle import confirm_slot_stopped, mark_slot_running, release_bot_from_slot
from pool.steering import pause_platform
from pool.waiting import position as places
from pool.waiting.estimate import Outlook
from pool.waiting.measurements import measure_platform
from pool.waiting.position import place_in_line, places_in_line
from slots.models import Slot, SlotTransition
from tests.factories import SlotFactory
from tests.queued import ask, many_wait, pool_of

pytestmark = pytest.mark.django_db

MEET = Platform.GOOGLE_MEET


def history(*lasted, from_status, to_status, epoch=5):
    slot = Slot.objects.first() or SlotFactory()
    for seconds in lasted:
        SlotTransition.objects.create(
            slot=slot,
            slot_name=slot.name,
            from_status=from_status,
            to_status=to_status,
            lasted=timedelta(seconds=seconds),
            reason="History",
            epoch=epoch,
            actor="test",
        )


def test_the_position_is_the_place_in_the_order_of_the_platform(settings):
    pool_of(settings, 0)
    last, first, middle = ask(priority=300), ask(priority=1), ask()
    ask(Platform.ZOOM)
    assert [place_in_line(bot).position for bot in (first, middle, last)] == [1, 2, 3]


def test_an_expired_waiter_does_not_count_as_ahead(settings):
    pool_of(settings, 0)
    ask(queue_timeout=timedelta(microseconds=1))
    assert place_in_line(ask()).position == 1


def test_a_bot_that_does_not_wait_has_no_place():
    assert place_in_line(ask()) is None


def test_all_places_at_once_are_the_same_as_one_by_one(settings):
    pool_of(settings, 3)
    bots = [ask(priority=priority) for priority in (100, 100, 100, 5, 100, 700, 100)]
    waiting = [bots[3], bots[4], bots[6], bots[5]]
    at_once = places_in_line(MEET)
    assert list(at_once) == [bot.pk for bot in waiting]
    for bot in waiting:
        alone = place_in_line(bot)
        assert at_once[bot.pk].position == alone.position
        difference = at_once[bot.pk].estimated_wait - alone.estimated_wait
        assert abs(difference) < timedelta(seconds=5)


def test_the_first_places_only(settings):
    pool_of(settings, 0)
    bots = [ask() for _ in range(3)]
    assert list(places_in_line(MEET, limit=2)) == [bot.pk for bot in bots[:2]]


def test_places_cost_as_many_queries_for_many_as_for_one(settings, django_assert_num_queries):
    pool_of(settings, 1)
    for _ in range(20):
        ask()
    with django_assert_num_queries(3):
        assert len(places_in_line(MEET)) == 19


def test_only_the_first_of_a_long_line_are_checked_one_by_one(settings, monkeypatch):
    pool_of(settings, 1)
    ask()
    many_wait(50)
    wait_of, steps = Outlook.wait_of, []
    monkeypatch.setattr(Outlook, "wait_of", lambda *of: steps.append(of) or wait_of(*of))
    monkeypatch.setattr(places, "LOOKED_AT", 5)
    compiled_anew = Prepared(places._deadlines_before._build)
    monkeypatch.setattr(places, "_deadlines_before", compiled_anew)
    assert place_in_line(ask()).position == 51
    assert len(steps) == 6


def test_the_estimate_is_the_wait_for_a_slot_and_the_start_in_it(settings):
    pool_of(settings, 1)
    history(22, from_status="deploying", to_status="busy")
    place = place_in_line(_waiter_behind_a_held_slot())
    assert place.estimated_wait - place.wait_for_slot == timedelta(seconds=22)


def _waiter_behind_a_held_slot():
    ask()
    return ask()


def test_there_is_no_estimate_without_a_slot_in_service(settings):
    pool_of(settings, 1)
    SlotFactory(status="idle", cordoned=True)
    place = place_in_line(ask())
    assert (place.position, place.estimated_wait) == (1, None)


def test_a_pause_without_an_end_has_no_estimate(settings):
    pool_of(settings, 1)
    pause_platform(MEET, reason="Maintenance", actor="alice")
    assert place_in_line(ask()).estimated_wait is None


def test_a_pause_with_an_end_is_waited_for(settings):
    pool_of(settings, 1)
    until = timezone.now() + timedelta(minutes=30)
    pause_platform(MEET, reason="Maintenance", actor="alice", until=until)
    wait = place_in_line(ask()).wait_for_slot
    assert timedelta(minutes=29) < wait <= timedelta(minutes=30)


# --- What it is made of ------------------------------------------------------------------------


def test_it_measures_how_long_bots_ran_and_how_long_starts_and_stops_take():
    history(100, 300, from_status="busy", to_status="stopping")
    history(20, 30, 40, from_status="deploying", to_status="busy")
    history(7, from_status="stopping", to_status="idle")
    measured = measure_platform(MEET).measured
    assert measured.bots == 2
    assert 100 <= measured.ran[0] < measured.ran[-1] <= 300
    assert (measured.start, measured.stop) == (30, 7)


def test_the_first_start_in_a_slot_is_not_a_warm_one():
    history(420, from_status="deploying", to_status="busy", epoch=1)
    assert measure_platform(MEET).measured.start == 30


def test_another_platform_has_a_history_of_its_own():
    history(100, from_status="busy", to_status="stopping")
    assert measure_platform(Platform.ZOOM).measured.bots == 0


def test_it_knows_how_long_each_slot_is_held_and_which_are_free(settings):
    pool_of(settings, 5)
    held, stopping = ask(), ask()
    Slot.objects.filter(assigned_bot=held).update(
        last_assigned_at=timezone.now() - timedelta(minutes=3)
    )
    release_bot_from_slot(stopping.slot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    SlotFactory(number=7)
    SlotFactory(number=8, cordoned=True)
    state = measure_platform(MEET).pool
    assert state.held_for == [pytest.approx(180, abs=30)]
    assert state.stopping_for == [pytest.approx(0, abs=30)]
    assert state.free == 2  # the idle one, and room for one more


def test_the_history_that_is_measured_is_the_one_that_slots_write():
    bot = ask()
    slot = bot.slot
    mark_slot_running(slot, reason="Container runs", actor="test")
    release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Meeting over", "bot"))
    slot.refresh_from_db()
    confirm_slot_stopped(slot, reason="Container gone", actor="test")
    measured = measure_platform(MEET).measured
    assert measured.bots == 1
    assert 0 <= measured.stop < 10
