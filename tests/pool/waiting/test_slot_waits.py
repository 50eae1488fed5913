from datetime import timedelta

import pytest
from django.utils import timezone

from bots.models import Bot
from bots.status import BotStatus
from coolify.models import Budget
from pool.waiting.slot_waits import slot_outlook, what_slots_wait_for
from pool.waiting.waiting_for import waiting_for
from pool.waiting.words import time_of
from slots.models import Slot
from slots.status import SlotStatus
from tests.factories import BotFactory, SlotFactory
from tests.queued import ask

pytestmark = pytest.mark.django_db


def slot_that(status, **fields):
    slot = SlotFactory(status=status, **fields)
    return Slot.objects.select_related("assigned_bot").get(pk=slot.pk)


def in_call():
    bot = BotFactory(status=BotStatus.IN_CALL, previous_status=BotStatus.JOINING_CALL)
    return Bot.objects.get(pk=bot.pk)


def stopping(**fields):
    return slot_that(SlotStatus.STOPPING, previous_status=SlotStatus.BUSY, **fields)


def error(**fields):
    return slot_that(SlotStatus.ERROR, previous_status=SlotStatus.STOPPING, error="No", **fields)


def test_a_deploying_slot_waits_for_what_its_bot_waits_for():
    bot = ask()
    assert slot_outlook(bot.slot).why == waiting_for(bot).message


def test_a_busy_slot_says_what_its_bot_does():
    bot = in_call()
    slot = slot_that(SlotStatus.BUSY, previous_status=SlotStatus.DEPLOYING, assigned_bot=bot)
    told = slot_outlook(slot)
    assert told.why == f"Bot #{bot.pk} has been in its call since {time_of(bot.status_since)}."
    assert told.next_step == "When the bot ends, its container is stopped."


def test_an_idle_slot_is_ready():
    assert slot_outlook(slot_that(SlotStatus.IDLE)).next_step.startswith("Ready for the next bot")


def test_a_cordoned_slot_says_so():
    assert "until it is uncordoned" in slot_outlook(slot_that("idle", cordoned=True)).next_step
    beyond = slot_that("idle", cordoned=True, beyond_size=True)
    assert slot_outlook(beyond).next_step.startswith("Beyond the pool's size")


def test_a_stop_that_was_not_sent_yet():
    assert slot_outlook(stopping()).next_step.startswith("Coolify is about to be asked to stop")


def test_a_stop_that_is_tried_again_later():
    again = timezone.now() + timedelta(seconds=20)
    told = slot_outlook(stopping(next_try_at=again)).next_step
    assert told == f"The stop is tried again at {time_of(again)}. Then the slot is idle."


def test_a_stop_that_has_to_be_confirmed():
    asked = timezone.now()
    told = slot_outlook(stopping(stop_asked_at=asked, stop_attempts=1)).next_step
    assert told == (
        f"Coolify was asked to stop the container at {time_of(asked)}; an observation after "
        f"{time_of(asked + timedelta(seconds=75))} has to show it as gone. Then the slot is idle."
    )


def test_a_container_that_was_seen_running_is_gone_with_the_next_observation():
    slot = stopping(
        previous_lasted=timedelta(hours=1),
        stop_asked_at=timezone.now(),
        stop_attempts=1,
        stopped_while_running=True,
        recreate=True,
    )
    told = slot_outlook(slot).next_step
    assert "; the next observation has to show it as gone." in told
    assert told.endswith("Then its application is replaced.")


def test_after_a_very_short_meeting_only_a_later_observation_counts(settings):
    settings.STATUS_SETTLES_AFTER = timedelta(seconds=5)
    short = {"previous_lasted": timedelta(seconds=1), "stopped_while_running": True}
    slot = stopping(stop_asked_at=timezone.now(), stop_attempts=1, **short)
    settled = time_of(slot.status_since + timedelta(seconds=4))
    assert f"; an observation after {settled} has to show it as gone." in (
        slot_outlook(slot).next_step
    )


def test_a_stop_that_was_repeated_says_how_often():
    told = slot_outlook(stopping(stop_asked_at=timezone.now(), stop_attempts=3)).next_step
    assert ", 3 of at most 10 times; " in told


def test_a_stop_on_a_server_that_is_away():
    told = slot_outlook(stopping(stop_attempts=1, server_unreachable=True)).next_step
    assert told.startswith("Coolify is asked to stop the container once it can reach the server.")


def test_a_stop_waits_for_coolify():
    now = timezone.now()
    since, until = now - timedelta(minutes=2), now + timedelta(seconds=30)
    open_circuit = {"open_since": since, "open_until": until, "open_reason": "refused"}
    Budget.objects.update_or_create(pk=Budget.THE_ONE, defaults=open_circuit)
    told = slot_outlook(stopping()).next_step
    assert told.startswith(
        f"Coolify has not answered since {time_of(since)}; it is tried again at {time_of(until)}."
    )


def test_a_slot_in_error_says_when_it_is_recovered():
    slot = error(recovery_attempts=1)
    due = slot.status_since + timedelta(minutes=4)
    assert slot_outlook(slot).next_step == (
        f"It gets no bot. It is recovered with a new application from {time_of(due)} on "
        "(attempt 2 of 3)."
    )


def test_a_slot_whose_recoveries_failed_needs_an_operator():
    told = slot_outlook(error(recovery_attempts=3)).next_step
    assert "no further recovery is tried: retry, recreate or delete it" in told


def test_many_slots_cost_as_many_queries_as_one(django_assert_num_queries):
    slots = [stopping(), stopping(), error()]
    bots = [ask() for _ in range(3)]
    slots += [*(bot.slot for bot in bots), slot_that(SlotStatus.IDLE, number=50)]
    # Starts; the clock and the budget.
    with django_assert_num_queries(3):
        told = what_slots_wait_for(slots)
    assert len(told) == 6
    assert told[bots[0].slot.pk] == waiting_for(bots[0]).message
