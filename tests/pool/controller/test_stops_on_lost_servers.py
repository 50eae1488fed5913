"""A stop on a server that Coolify cannot reach stops nothing, and its answer is no evidence."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.client.resources import Server as ReportedServer
from core.clock import database_now
from pool.controller.servers import read_servers
from servers.models import Server
from slots.deployment import Watch
from slots.models import Slot
from tests.controller import advance_one
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

RUNNING = {"container_status": "RUNNING", "application_state": "running"}
EXITED = {"container_status": "STOPPED", "application_state": "exited"}
AWAY, BACK = {"server_unreachable": True}, {"server_unreachable": False}


class Stops:
    def __init__(self):
        self.stops = 0

    def stop(self, uuid):
        self.stops += 1


class Servers:
    def servers(self):
        return [ReportedServer("a", is_reachable=True)]


@pytest.fixture
def coolify(monkeypatch):
    coolify = Stops()
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: coolify)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    return coolify


def observe(**seen) -> None:
    at = database_now()
    Slot.objects.update(**seen)
    Watch.objects.update_or_create(pk=True, defaults={"observed_at": at, "looked_at": at})


def advance() -> Slot:
    slot = Slot.objects.get()
    advance_one(slot)
    slot.refresh_from_db()
    return slot


def stopping(**more) -> None:
    SlotFactory(status="stopping", previous_status="busy", **more)


def long_ago(settings):
    return Now() - 2 * settings.STOP_CONFIRM_AFTER


def test_a_stop_waits_until_coolify_reaches_the_server(coolify):
    stopping()
    observe(**RUNNING, **AWAY)
    assert advance().stop_asked_at is None
    observe(**BACK)
    assert advance().stop_asked_at is not None
    assert coolify.stops == 1


def test_exited_from_before_the_server_went_away_proves_nothing_when_it_is_back(coolify, settings):
    """Coolify writes `exited` before it notices that the server is dead, and its next check of the
    containers comes up to a minute after the server is back."""
    stopping(stop_attempts=1, stop_asked_at=database_now(), stopped_while_running=True)
    Slot.objects.update(docker_asked_at=Now(), stop_asked_at=long_ago(settings))
    observe(**EXITED, **AWAY)
    advance()
    observe(**BACK)
    slot = advance()
    assert (slot.status, slot.stop_attempts, coolify.stops) == ("stopping", 2, 1)
    # The new stop may still wait in Coolify's queue: now `exited` has to last.
    observe()
    assert advance().status == "stopping"
    Slot.objects.update(stop_asked_at=long_ago(settings))
    observe()
    assert advance().status == "idle"


def test_the_last_stop_gets_as_much_time_as_the_others(coolify, settings):
    most = settings.STOP_MAX_ATTEMPTS
    stopping(stop_attempts=most, stop_asked_at=database_now())
    observe(**RUNNING)
    assert advance().status == "stopping"
    late = settings.STOP_RETRY_AFTER + timedelta(seconds=1)
    Slot.objects.update(stop_asked_at=Now() - late)
    observe(**RUNNING)
    slot = advance()
    assert (slot.status, coolify.stops) == ("error", 0)


def test_a_slot_recovers_if_its_application_went_with_its_server(coolify):
    """Of an application that is missing, the last word on its server is from before."""
    SlotFactory(coolify_uuid="app-1")
    Slot.objects.update(
        status="error",
        previous_status="idle",
        error="It does not start",
        status_since=Now() - timedelta(days=1),
    )
    observe(**AWAY)
    assert advance().status == "error"
    observe(application_missing=True)
    assert advance().status == "stopping"


def test_the_return_of_a_server_is_observed_soon(monkeypatch):
    """Its slots wait for that, and nothing else may be under way that is observed."""
    Server.objects.create(uuid="a", unreachable_since=Now())
    monkeypatch.setattr("pool.controller.servers.shared_coolify", Servers)
    read_servers()
    assert Watch.objects.get().wanted_at is not None
