"""A bot that hangs but sends heartbeats does not hold its slot for ever."""

from datetime import timedelta

import pytest
from django.utils import timezone

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import BotStatus
from pool.assign import assign_bot_to_slot
from pool.lifecycle import mark_slot_running
from pool.reconciler.reconcile import reconcile
from pool.reports import record_heartbeat, record_status
from slots.models import Finding, Slot
from slots.tokens import Assignment
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db

LIMIT = timedelta(hours=24)
GRACE = timedelta(minutes=5)


def bot_that_runs_for(how_long: timedelta) -> Assignment:
    """It was heard just now."""
    SlotFactory()
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    mark_slot_running(slot, reason="Container runs", actor="test")
    move_bot(slot.assigned_bot_id, Outcome(BotStatus.IN_CALL, "Reported by the bot", "test"))
    now = timezone.now()
    Bot.objects.update(started_at=now - how_long, last_heartbeat_at=now)
    slot.refresh_from_db()
    return Assignment(bot_id=slot.assigned_bot_id, slot_id=slot.pk, epoch=slot.epoch)


def test_a_bot_may_stay_until_the_limit():
    assert record_heartbeat(bot_that_runs_for(LIMIT - timedelta(minutes=1)))
    reconcile()
    assert Bot.objects.get().status == "IN_CALL"


def test_beyond_the_limit_the_bot_is_told_to_leave_first():
    assignment = bot_that_runs_for(LIMIT + timedelta(minutes=1))
    assert not record_heartbeat(assignment)
    reconcile()
    assert Bot.objects.get().status == "IN_CALL"
    assert Slot.objects.get().status == "busy"


def test_a_bot_that_leaves_then_is_done():
    assignment = bot_that_runs_for(LIMIT + timedelta(minutes=1))
    assert not record_status(assignment, BotStatus.LEAVING, reason="Told to")
    assert Bot.objects.get().status == "LEAVING"
    record_status(assignment, BotStatus.DONE, reason="Left")
    assert Bot.objects.get().status == "DONE"


def test_a_bot_that_stays_all_the_same_fails_and_its_slot_is_released():
    bot_that_runs_for(LIMIT + GRACE + timedelta(minutes=1))
    reconcile()
    bot = Bot.objects.get()
    assert (bot.status, bot.failure_cause) == ("FAILED", "meeting_too_long")
    assert bot.failure_kind == "meeting"
    assert "24 h" in bot.failure_reason
    assert Slot.objects.get().status == "stopping"
    assert Finding.objects.get(kind="meeting_too_long").evidence["limitSeconds"] == 86_400


def test_a_bot_that_has_not_called_since_the_limit_was_not_told():
    """The web may have been away. When the bot calls, it is told."""
    assignment = bot_that_runs_for(LIMIT + GRACE + timedelta(minutes=1))
    Bot.objects.update(last_heartbeat_at=timezone.now() - GRACE - timedelta(minutes=2))
    reconcile()
    assert Bot.objects.get().status == "IN_CALL"
    assert not record_heartbeat(assignment)


def test_however_many_stay_none_waits_for_an_operator():
    """The evidence is our own clock, and they were told to leave: those that listen are gone."""
    for _ in range(5):
        bot_that_runs_for(LIMIT + GRACE + timedelta(minutes=1))
    assert reconcile().stopped == ""
    assert set(Bot.objects.values_list("status", flat=True)) == {"FAILED"}


def test_the_limit_can_be_set(settings):
    settings.MAX_MEETING_DURATION = timedelta(hours=1)
    settings.MEETING_LEAVE_GRACE = timedelta(minutes=2)
    assert not record_heartbeat(bot_that_runs_for(timedelta(minutes=61)))
    reconcile()
    assert Bot.objects.get().status == "IN_CALL"
    Bot.objects.update(started_at=timezone.now() - timedelta(minutes=63))
    reconcile()
    assert Bot.objects.get().status == "FAILED"


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (timedelta(seconds=20), "20 s"),
        (timedelta(minutes=90), "1 h 30 min"),
        (timedelta(hours=720), "720 h"),
        (timedelta(milliseconds=1500), "1 s 500 ms"),
    ],
)
def test_the_limit_is_said_as_people_do(settings, limit, words):
    settings.MAX_MEETING_DURATION = limit
    bot_that_runs_for(limit + GRACE + timedelta(minutes=1))
    reconcile()
    assert f": longer than {words} (MAX_MEETING_DURATION)" in Bot.objects.get().failure_reason


def test_a_bot_that_ends_in_between_is_not_failed():
    assignment = bot_that_runs_for(LIMIT + GRACE + timedelta(minutes=1))
    record_status(assignment, BotStatus.DONE, reason="Left")
    reconcile()
    assert Bot.objects.get().status == "DONE"
