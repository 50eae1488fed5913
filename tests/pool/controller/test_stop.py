"""Stopping a container, and making sure that it has stopped."""

import time
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from bots.moves import Outcome
from bots.status import BotStatus
from core.clock import database_now
from pool.assign import assign_bot_to_slot
from pool.controller.observe import last_observation
from pool.lifecycle import end_bot, mark_slot_running
from pool.reports import record_status
from slots.deployment import Deployment, DeploymentStatus, Watch
from slots.models import Slot
from slots.tokens import Assignment
from tests.controller import advance_one
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


def cancel_during_its_start(pool):
    """Its container is not observed running, so `exited` has to last before it is believed."""
    bot = pool.request()
    pool.until(lambda: Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS).exists())
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))


@pytest.mark.slow
def test_a_slot_comes_free_where_a_stop_is_repeated_sooner_than_it_is_believed(pool, settings):
    settings.STOP_RETRY_AFTER = timedelta(milliseconds=300)
    settings.STOP_MAX_ATTEMPTS = 10_000
    settings.STOP_CONFIRM_AFTER = timedelta(milliseconds=900)
    cancel_during_its_start(pool)
    pool.until(pool.all_idle, seconds=30)


@pytest.mark.slow
def test_a_stop_is_not_repeated_while_the_container_is_seen_to_be_gone(pool, settings):
    settings.STOP_RETRY_AFTER = timedelta(milliseconds=300)
    settings.STOP_MAX_ATTEMPTS = 10_000
    settings.STOP_CONFIRM_AFTER = timedelta(seconds=60)
    cancel_during_its_start(pool)
    pool.until(lambda: Slot.objects.get().stop_attempts and _observed_after_the_stop())
    attempts = Slot.objects.get().stop_attempts
    until = time.monotonic() + 2
    while time.monotonic() < until:
        pool.tend()
    assert Slot.objects.get().stop_attempts == attempts


def _observed_after_the_stop() -> bool:
    slot, observed_at = Slot.objects.get(), last_observation()
    is_newer = observed_at is not None and observed_at > slot.stop_asked_at
    return is_newer and slot.container_status == "STOPPED"


# --- Step by step -----------------------------------------------------------------------------


class StopsOnly:
    def __init__(self):
        self.stops = []

    def stop(self, uuid):
        self.stops.append(uuid)


@pytest.fixture
def coolify(monkeypatch):
    stops = StopsOnly()
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: stops)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    return stops


def observed(**seen) -> None:
    Slot.objects.update(**seen)
    Watch.objects.update_or_create(pk=True, defaults={"observed_at": database_now()})


def a_slot_that_its_bot_has_left(**seen) -> Slot:
    SlotFactory(coolify_uuid="app-1")
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    mark_slot_running(slot, reason="The bot called from its container", actor="test")
    slot.refresh_from_db()
    Slot.objects.update(**seen)
    assignment = Assignment(bot_id=slot.assigned_bot_id, slot_id=slot.pk, epoch=slot.epoch)
    record_status(assignment, BotStatus.DONE, reason="Over")
    return slot


RUNNING = {"container_status": "RUNNING", "application_state": "running"}
EXITED = {"container_status": "STOPPED", "application_state": "exited"}


@pytest.mark.parametrize(("seen_after_its_bot_came", "is_free"), [(-1, True), (1, False)])
def test_only_what_was_seen_since_its_bot_came_delays_the_slot(
    coolify, seen_after_its_bot_came, is_free
):
    """The container of a short meeting is never observed: what is stored is the one before it."""
    slot = a_slot_that_its_bot_has_left()
    busy_since = slot.status_since
    seen_at = busy_since + timedelta(microseconds=seen_after_its_bot_came)
    Slot.objects.update(**EXITED, container_seen_at=seen_at)
    advance_one(slot)
    observed()
    advance_one(slot)
    assert coolify.stops == ["app-1"]
    assert (Slot.objects.get().status == "idle") == is_free


def test_a_stop_is_believed_only_by_an_observation_that_began_after_it(coolify):
    slot = a_slot_that_its_bot_has_left(**RUNNING)
    advance_one(slot)
    Slot.objects.update(**EXITED)
    before = Slot.objects.get().stop_asked_at - timedelta(milliseconds=1)
    Watch.objects.update_or_create(pk=True, defaults={"observed_at": before})
    advance_one(slot)
    assert Slot.objects.get().status == "stopping"
    observed()
    advance_one(slot)
    assert Slot.objects.get().status == "idle"


def test_a_stop_is_not_repeated_without_a_newer_observation_however_long_it_takes(
    coolify, settings
):
    slot = a_slot_that_its_bot_has_left(**RUNNING)
    observed()
    advance_one(slot)
    Slot.objects.update(stop_asked_at=Now() - timedelta(hours=1))
    Watch.objects.update(observed_at=Now() - timedelta(hours=2))
    for _ in range(5):
        advance_one(slot)
    assert coolify.stops == ["app-1"]


def test_a_stop_is_repeated_once_the_container_is_seen_running_long_after_it(coolify, settings):
    slot = a_slot_that_its_bot_has_left(**RUNNING)
    advance_one(slot)
    Slot.objects.update(stop_asked_at=Now() - settings.STOP_RETRY_AFTER * 2)
    observed()
    for _ in range(5):
        advance_one(slot)
    assert coolify.stops == ["app-1"] * 2


@pytest.mark.parametrize(
    "unclear",
    [
        {"server_unreachable": True},
        {"container_status": "DEPLOYING"},
        {"application_state": "degraded", "container_status": "FAILED"},
    ],
)
def test_what_is_unclear_does_not_free_a_slot(coolify, unclear):
    slot = a_slot_that_its_bot_has_left(**RUNNING)
    advance_one(slot)
    observed(**{**EXITED, **unclear})
    advance_one(slot)
    assert Slot.objects.get().status == "stopping"
