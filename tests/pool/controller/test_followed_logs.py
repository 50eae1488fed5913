"""Following the log of a running container: one call for all viewers."""

from datetime import timedelta

import pytest
from django.db.models import F

from coolify.client.errors import BudgetExhausted, NotRunning, Unreachable
from pool.controller.logs import follow
from pool.controller.logs.follow import follow_log
from slots.logs import LogReading
from slots.models import Slot
from slots.status import SlotStatus
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db


class Coolify:
    def __init__(self):
        self.calls, self.answer = 0, "joined"

    def logs(self, uuid, **options):
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def coolify(monkeypatch):
    coolify = Coolify()
    monkeypatch.setattr(follow, "shared_coolify", lambda: coolify)
    return coolify


def held_slot(**bot) -> Slot:
    return SlotFactory(status=SlotStatus.DEPLOYING, assigned_bot=BotFactory(**bot))


def later(**passed) -> None:
    LogReading.objects.update(asked_at=F("asked_at") - timedelta(**passed))


def test_many_viewers_cost_one_call(coolify):
    slot = held_slot()
    assert [follow_log(slot).text for _ in range(5)] == ["joined"] * 5
    assert coolify.calls == 1


def test_it_is_read_again_after_the_interval(coolify, settings):
    slot = held_slot()
    follow_log(slot)
    later(seconds=settings.LOG_INTERVAL.total_seconds() + 1)
    coolify.answer = "joined\nin the call"
    assert follow_log(slot).text == "joined\nin the call"


def test_the_interval_grows_with_the_slots_that_are_followed(coolify, settings):
    slots = [held_slot() for _ in range(3)]
    for slot in slots:
        follow_log(slot)
    later(seconds=settings.LOG_INTERVAL.total_seconds() + 1)
    for slot in slots:
        follow_log(slot)
    assert coolify.calls == len(slots)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotRunning("no", status=400), "No container is running"),
        (BudgetExhausted("wait 5 s", retry_after=5, reason="limit"), "needed for starts and stops"),
        (Unreachable("It timed out"), "Coolify did not give the log: It timed out"),
    ],
)
def test_a_log_that_cannot_be_read_says_why_and_keeps_what_was_read(coolify, error, words):
    slot = held_slot()
    follow_log(slot)
    later(minutes=2)
    coolify.answer = error
    reading = follow_log(slot)
    assert words in reading.problem
    assert reading.text == "joined"


def test_an_idle_slot_costs_no_call(coolify):
    assert follow_log(SlotFactory(container_status="STOPPED")).problem == follow.NOT_RUNNING
    assert follow_log(SlotFactory(coolify_uuid="")).problem == follow.NO_APPLICATION
    assert coolify.calls == 0


def test_the_lines_of_an_earlier_bot_are_not_shown_with_the_next(coolify):
    slot = held_slot()
    follow_log(slot)
    Slot.objects.update(epoch=F("epoch") + 1)
    slot.refresh_from_db()
    coolify.answer = Unreachable("It timed out")
    assert follow_log(slot).text == ""


def test_secrets_are_hidden(coolify):
    coolify.answer = "logging in with hunter22"
    assert "hunter22" not in follow_log(held_slot(config={"password": "hunter22"})).text


def test_however_many_slots_are_followed_only_so_many_are_read_in_a_minute(coolify, settings):
    most = timedelta(minutes=1) // settings.LOG_INTERVAL
    readings = [follow_log(held_slot()) for _ in range(most + 3)]
    assert coolify.calls == most
    assert [reading.problem for reading in readings[most:]] == [follow.TOO_MANY] * 3


def test_a_slot_that_had_to_wait_is_read_once_others_are_older(coolify, settings):
    slots = [held_slot() for _ in range(timedelta(minutes=1) // settings.LOG_INTERVAL + 1)]
    for slot in slots:
        follow_log(slot)
    later(minutes=2)
    reading = follow_log(slots[-1])
    assert (reading.problem, reading.text) == ("", "joined")


def test_an_idle_slot_keeps_no_other_from_being_read(coolify, settings):
    for _ in range(timedelta(minutes=1) // settings.LOG_INTERVAL):
        follow_log(SlotFactory(container_status="STOPPED"))
    assert follow_log(held_slot()).text == "joined"
