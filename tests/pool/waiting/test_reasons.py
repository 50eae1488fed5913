import re
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from bots.status import FailureCause, Platform
from coolify.models import Budget
from pool.lifecycle import handle_slot_error
from pool.steering import pause_platform
from pool.waiting.reasons import why_each_waits, why_waiting
from slots.models import Pool
from tests.factories import SlotFactory
from tests.queued import ask, pool_of

pytestmark = pytest.mark.django_db

MEET = Platform.GOOGLE_MEET


def test_it_says_who_is_ahead_which_slots_are_taken_and_what_comes_next(settings):
    pool_of(settings, 2)
    ask(), ask(), ask(), ask()
    bot = ask()
    ahead, priority, slots, coming = why_waiting(bot)
    assert ahead == "2 bots are ahead of it."
    assert priority == "Its priority is 100; one step is worth 2 s of waiting."
    assert slots == "Of at most 2 slots: 2 held."
    assert coming.startswith("A slot is expected in about ")
    assert f"the bot gives up at {bot.queue_entry.timeout_at:%Y-%m-%dT%H:%M:%SZ}." in coming


def test_the_first_waiter_is_next_in_line(settings):
    pool_of(settings, 1)
    ask()
    assert why_waiting(ask())[0] == "It is next in line."


def test_it_counts_slots_in_error_and_cordoned_ones(settings):
    pool_of(settings, 3)
    failed = ask()
    SlotFactory(number=2, cordoned=True)
    SlotFactory(number=3, status="idle", cordoned=True)
    handle_slot_error(failed.slot, "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    assert "Of at most 3 slots: 0 held, 1 in error, 2 cordoned." in why_waiting(failed)
    assert "There is no estimate of when" in why_waiting(failed)[-1]


def test_it_knows_the_size_that_operators_set(settings):
    pool_of(settings, 3)
    Pool.objects.create(platform=MEET, max_size=0)
    assert "Of at most 0 slots: 0 held." in why_waiting(ask())


def test_it_names_a_pause(settings):
    pause_platform(MEET, reason="New image", actor="alice")
    assert "Google Meet is paused by alice until it is resumed: New image." in why_waiting(ask())
    until = timezone.now() + timedelta(hours=1)
    pause_platform(MEET, reason="New image", actor="alice", until=until)
    until_words = f"until {until:%Y-%m-%dT%H:%M:%SZ}"
    assert f"Google Meet is paused by alice {until_words}: New image." in why_waiting(ask())


def test_it_says_that_coolify_is_down(settings):
    pool_of(settings, 0)
    now = timezone.now()
    Budget.objects.update_or_create(
        pk=Budget.THE_ONE,
        defaults={"open_since": now, "open_until": now, "open_reason": "connection refused"},
    )
    expected = f"Coolify has not answered since {now:%Y-%m-%dT%H:%M:%SZ}: connection refused."
    assert expected in why_waiting(ask())


def test_a_bot_that_does_not_wait_has_no_reasons():
    assert why_waiting(ask()) == []


def test_reasons_of_a_whole_platform_cost_a_fixed_number_of_queries(
    settings, django_assert_max_num_queries
):
    pool_of(settings, 0)
    bots = [ask() for _ in range(15)]
    with django_assert_max_num_queries(11):
        reasons = why_each_waits(MEET)
    assert list(reasons) == [bot.pk for bot in bots]
    assert reasons[bots[14].pk][0] == "14 bots are ahead of it."


def printed():
    out = StringIO()
    call_command("drain_queue", stdout=out)
    return out.getvalue().splitlines()


def test_the_command_prints_what_was_found_why_and_what_was_done(settings):
    pool_of(settings, 0)
    late = ask(queue_timeout=timedelta(microseconds=1))
    lucky, waiter = ask(), ask()
    slot = SlotFactory()
    found, failed, given, waits, done = printed()
    assert found == "Found   3 waiting"
    assert re.sub(r"\d+ s", "0 s", failed) == (
        f"Failed  {late}: waited 0 s in the queue, no slot became free"
    )
    assert given == f"Given   {slot.name} to {lucky}"
    assert waits.startswith(f"Waits   {waiter} for google-meet: It is next in line. Its")
    assert done == "Done    1 got a slot, 1 timed out"


def test_the_command_counts_the_waiters_it_does_not_name(settings):
    pool_of(settings, 0)
    for _ in range(12):
        ask(Platform.ZOOM)
    assert "Waits   2 more for zoom" in printed()
