"""Coolify says `exited` after a stop even if Docker refused it: what is believed, and why."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from bots.moves import Outcome
from bots.status import BotStatus
from coolify.client.errors import BudgetExhausted, Unavailable
from core.clock import database_now
from pool.assign import assign_bot_to_slot
from pool.lifecycle import end_bot, mark_slot_running
from pool.reports import record_heartbeat, record_status
from slots.deployment import Watch
from slots.models import Slot
from slots.tokens import Assignment
from tests.controller import advance_one
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


class Docker:
    """Coolify, as far as a stop needs it. `runs` is what Docker says, or the error instead."""

    def __init__(self):
        self.runs = False
        self.stops = 0
        self.asked = 0

    def stop(self, uuid):
        self.stops += 1

    def container_runs(self, uuid):
        self.asked += 1
        if isinstance(self.runs, Exception):
            raise self.runs
        return self.runs


@pytest.fixture
def docker(monkeypatch):
    docker = Docker()
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: docker)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    return docker


def observe(**seen) -> None:
    at = database_now()
    Slot.objects.update(**seen, container_seen_at=at)
    Watch.objects.update_or_create(pk=True, defaults={"observed_at": at})


def observe_again() -> None:
    Watch.objects.update(observed_at=database_now())


RUNNING = {"container_status": "RUNNING", "application_state": "running"}
EXITED = {"container_status": "STOPPED", "application_state": "exited"}


class Stopping:
    """A slot in a meeting whose bot has ended, with Coolify asked to stop its container."""

    def __init__(self, *, by_itself: bool) -> None:
        SlotFactory(coolify_uuid="app-1")
        self.bot = BotFactory()
        slot = assign_bot_to_slot(self.bot, reason="Bot requested", actor="test")
        mark_slot_running(slot, reason="The container is running", actor="test")
        observe(**RUNNING)
        self.assignment = Assignment(bot_id=self.bot.pk, slot_id=slot.pk, epoch=slot.epoch)
        if by_itself:
            record_status(self.assignment, BotStatus.DONE, reason="")
        else:
            end_bot(self.bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
        self.advance()

    def advance(self) -> Slot:
        slot = Slot.objects.get()
        advance_one(slot)
        slot.refresh_from_db()
        return slot

    def seen_exited(self) -> Slot:
        observe(**EXITED)
        return self.advance()


def test_a_bot_that_left_by_itself_is_gone_once_it_is_seen_exited(docker):
    assert Stopping(by_itself=True).seen_exited().status == "idle"
    assert docker.asked == 0


def test_exited_is_not_believed_just_after_the_start_of_a_short_meeting(docker, settings):
    settings.STATUS_SETTLES_AFTER = timedelta(minutes=1)
    stopping = Stopping(by_itself=True)
    assert stopping.seen_exited().status == "stopping"
    long_ago = Now() - settings.STATUS_SETTLES_AFTER
    Slot.objects.update(status_since=long_ago, stop_asked_at=long_ago)
    observe_again()
    assert stopping.advance().status == "idle"


def test_a_slot_taken_from_a_meeting_is_not_idle_while_docker_runs_its_container(docker):
    docker.runs = True
    slot = Stopping(by_itself=False).seen_exited()
    assert slot.status == "stopping"
    assert slot.stop_refused_at


def test_a_slot_taken_from_a_meeting_is_idle_once_docker_says_that_nothing_runs(docker):
    assert Stopping(by_itself=False).seen_exited().status == "idle"
    assert docker.asked == 1


def test_a_bot_that_was_told_to_leave_needs_no_word_of_docker(docker):
    docker.runs = True
    stopping = Stopping(by_itself=False)
    assert record_heartbeat(stopping.assignment) is False
    assert stopping.seen_exited().status == "idle"


@pytest.mark.parametrize(
    ("error", "questions"),
    [
        (Unavailable("SSH refused"), 1),
        (BudgetExhausted("no calls left", retry_after=1, reason="limit"), 3),
    ],
)
def test_without_an_answer_of_docker_exited_has_to_last(docker, settings, error, questions):
    docker.runs = error
    stopping = Stopping(by_itself=False)
    assert stopping.seen_exited().status == "stopping"
    observe_again()
    assert stopping.advance().status == "stopping"
    Slot.objects.update(stop_asked_at=Now() - settings.STOP_CONFIRM_AFTER)
    observe_again()
    assert stopping.advance().status == "idle"
    assert docker.asked == questions


@pytest.mark.parametrize("by_itself", [True, False])
def test_a_call_after_it_was_seen_exited_proves_that_it_lives(docker, by_itself):
    stopping = Stopping(by_itself=by_itself)
    observe(**EXITED)
    record_heartbeat(stopping.assignment)
    slot = stopping.advance()
    assert slot.status == "stopping"
    assert slot.stop_refused_at


def test_a_call_while_it_stops_proves_nothing(docker):
    stopping = Stopping(by_itself=True)
    record_heartbeat(stopping.assignment)
    assert stopping.seen_exited().status == "idle"


def test_a_refused_stop_is_repeated_and_then_exited_has_to_last(docker, settings):
    docker.runs = True
    stopping = Stopping(by_itself=False)
    stopping.seen_exited()
    assert docker.stops == 1
    late = settings.STOP_RETRY_AFTER + timedelta(seconds=1)
    Slot.objects.update(stop_asked_at=Now() - late)
    observe_again()
    slot = stopping.advance()
    assert (docker.stops, slot.status, slot.stop_refused_at) == (2, "stopping", None)
    # An earlier stop made it `exited`, so the new one may still be in Coolify's queue.
    docker.runs = False
    observe_again()
    assert stopping.advance().status == "stopping"
    Slot.objects.update(stop_asked_at=Now() - settings.STOP_CONFIRM_AFTER)
    observe_again()
    assert stopping.advance().status == "idle"


def test_a_container_that_goes_on_calling_is_not_gone_however_long_it_is_exited(docker, settings):
    docker.runs = Unavailable("SSH refused")
    stopping = Stopping(by_itself=False)
    Slot.objects.update(stop_attempts=2, stop_asked_at=Now() - 2 * settings.STOP_CONFIRM_AFTER)
    record_heartbeat(stopping.assignment)
    assert stopping.seen_exited().status == "stopping"


# --- After the slot became idle ---------------------------------------------------------------


def idle_again(docker) -> Stopping:
    stopping = Stopping(by_itself=True)
    assert stopping.seen_exited().status == "idle"
    return stopping


def test_an_idle_slot_whose_container_calls_and_runs_is_stopped_again(docker):
    stopping = idle_again(docker)
    docker.runs = True
    record_heartbeat(stopping.assignment)
    assert stopping.advance().status == "stopping"
    # That the bot was told to leave has not helped: now `exited` has to last.
    assert stopping.seen_exited().status == "stopping"


def test_a_late_call_alone_takes_no_slot_out_of_service(docker):
    stopping = idle_again(docker)
    record_heartbeat(stopping.assignment)
    assert stopping.advance().status == "idle"
    record_heartbeat(stopping.assignment)
    stopping.advance()
    assert docker.asked == 1


def test_a_container_of_an_earlier_bot_says_nothing_about_the_last_one(docker):
    stopping = idle_again(docker)
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    record_heartbeat(stopping.assignment)
    slot.refresh_from_db()
    assert slot.late_call_at is None
