"""Bringing a container down, and being sure that it is down."""

import time
from datetime import timedelta

import pytest

from bots.moves import Outcome
from bots.status import BotStatus
from coolify.client.resources import Application, ApplicationStatus
from core.clock import database_now
from pool.assign import assign_bot_to_slot
from pool.controller.observe import Look
from pool.controller.stop import stop_released
from pool.lifecycle import end_bot, mark_slot_running, release_bot_from_slot
from slots.deployment import Deployment, DeploymentStatus
from slots.models import Slot
from tests.factories import BotFactory, SlotFactory

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def cancel_during_its_start(pool):
    """Its container is not seen to run, so that `exited` has to last before it is believed."""
    bot = pool.request()
    pool.until(lambda: Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS).exists())
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))


def test_a_slot_comes_free_where_a_stop_is_repeated_sooner_than_it_is_believed(pool, settings):
    settings.STOP_RETRY_AFTER = timedelta(milliseconds=300)
    settings.STOP_MAX_ATTEMPTS = 10_000
    settings.STOP_CONFIRM_AFTER = timedelta(milliseconds=900)
    cancel_during_its_start(pool)
    pool.until(pool.all_idle, seconds=30)


def test_a_stop_is_not_repeated_while_the_container_is_seen_to_be_gone(pool, settings):
    settings.STOP_RETRY_AFTER = timedelta(seconds=1)  # longer than from a stop to a look at it
    settings.STOP_MAX_ATTEMPTS = 10_000
    settings.STOP_CONFIRM_AFTER = timedelta(seconds=60)
    cancel_during_its_start(pool)
    pool.until(lambda: Slot.objects.filter(seen_gone_since__isnull=False).exists())
    attempts = Slot.objects.get().stop_attempts
    until = time.monotonic() + 2
    while time.monotonic() < until:
        pool.tend()
    assert Slot.objects.get().stop_attempts == attempts


class PatientCoolify:
    def __init__(self):
        self.stops = []

    def stop(self, uuid):
        self.stops.append(uuid)


@pytest.mark.parametrize(("seen_after_its_bot_came", "is_free"), [(-1, True), (1, False)])
def test_only_what_was_seen_since_its_bot_came_delays_the_slot(seen_after_its_bot_came, is_free):
    """The container of a short meeting is seen by nobody: the last reading is of the one before."""
    SlotFactory(coolify_uuid="app-1")
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    mark_slot_running(slot, reason="The bot calls from its container", actor="test")
    slot.refresh_from_db()
    seen_at = slot.status_since + timedelta(microseconds=seen_after_its_bot_came)
    Slot.objects.update(container_status="STOPPED", container_seen_at=seen_at)
    release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Over", "test"))

    coolify = PatientCoolify()
    for _ in range(2):
        exited = Application(uuid="app-1", status=ApplicationStatus("exited"))
        stop_released(Look(database_now(), {"app-1": exited}, {}, {}), coolify)

    assert coolify.stops == ["app-1"]
    assert (Slot.objects.get().status == "idle") == is_free
