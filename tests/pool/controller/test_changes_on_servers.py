"""While a start or stop is under way, the short list of its server says whether the long one is
needed. Nothing is decided by the short one."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.client.errors import NotFound, Unavailable
from coolify.client.resources import Application, ApplicationStatus, ServerResource
from core.clock import database_now
from pool.controller import observe
from pool.controller.containers import changes
from pool.controller.containers.changes import list_lasts_for, nothing_has_changed
from slots.deployment import Watch
from slots.models import Slot
from tests.factories import DeploymentFactory, SlotFactory

pytestmark = pytest.mark.django_db


class Coolify:
    """Shows these states, by application; `error` is raised instead of the short list."""

    def __init__(self, **states):
        self.states = {uuid.replace("_", "-"): state for uuid, state in states.items()}
        self.error, self.asked = None, []

    def server_resources(self, uuid):
        self.asked.append(uuid)
        if self.error:
            raise self.error
        states = self.states.items()
        return [ServerResource(uuid, ApplicationStatus(state)) for uuid, state in states]

    def deployments(self, *, observing):
        self.asked.append("deployments")
        return []

    def applications(self, *, observing):
        self.asked.append("applications")
        states = self.states.items()
        return [Application(uuid, ApplicationStatus(state)) for uuid, state in states]


def seconds_ago(seconds):
    return database_now() - timedelta(seconds=seconds)


@pytest.fixture
def slot():
    """Asked to stop three seconds ago. The list of a second ago still showed its container."""
    Watch.objects.create(looked_at=seconds_ago(1), observed_at=seconds_ago(1))
    return SlotFactory(
        status="stopping",
        previous_status="busy",
        coolify_uuid="app-1",
        application_state="running",
        stop_asked_at=seconds_ago(3),
        stop_attempts=1,
    )


def unchanged(coolify) -> bool:
    return nothing_has_changed(coolify, now=database_now())


def test_the_list_will_do_while_the_server_shows_what_it_showed(slot):
    coolify = Coolify(app_1="running", of_another_program="exited")
    assert unchanged(coolify)
    assert coolify.asked == ["server-1"]


@pytest.mark.parametrize("now_shown", [{"app_1": "exited"}, {"another": "running"}, {}])
def test_another_status_and_an_application_that_is_not_shown_are_changes(slot, now_shown):
    assert not unchanged(Coolify(**now_shown))


def test_a_change_of_any_slot_on_the_server_counts(slot):
    SlotFactory(coolify_uuid="app-2", application_state="running")
    assert not unchanged(Coolify(app_1="running", app_2="exited"))


def test_an_application_that_the_list_lacked_too_is_no_change(slot):
    SlotFactory(coolify_uuid="app-2", application_state="running", application_missing=True)
    assert unchanged(Coolify(app_1="running"))
    assert not unchanged(Coolify(app_1="running", app_2="running"))


@pytest.mark.parametrize("error", [Unavailable("away"), NotFound("no such server", thing="server")])
def test_no_answer_asks_for_the_list(slot, error):
    coolify = Coolify(app_1="running")
    coolify.error = error
    assert not unchanged(coolify)


# --- Where only a list will do ---


def needs_a_list(coolify=None) -> bool:
    coolify = coolify or Coolify(app_1="running")
    return not unchanged(coolify) and coolify.asked == []


def test_a_list_that_is_old_or_failed_is_asked_for_again(slot):
    Watch.objects.update(observed_at=Now() - list_lasts_for())
    assert needs_a_list()
    Watch.objects.update(observed_at=Now() - timedelta(seconds=1), failing_since=Now())
    assert needs_a_list()


def test_a_stop_or_start_from_after_the_list_needs_a_new_one(slot):
    Slot.objects.update(stop_asked_at=Now())
    assert needs_a_list()
    Slot.objects.update(status="idle", previous_status="stopping", stop_asked_at=None)
    DeploymentFactory(status="in_progress", status_since=database_now())
    assert needs_a_list()


def test_many_servers_cost_more_calls_than_the_list(slot):
    for number in (2, 3):
        SlotFactory(
            status="stopping",
            previous_status="busy",
            server_uuid=f"server-{number}",
            stop_asked_at=seconds_ago(3),
        )
    assert needs_a_list()


def test_under_pressure_calls_count_more_than_bytes(slot, monkeypatch):
    monkeypatch.setattr(changes, "pressure", lambda: 0.1)
    assert needs_a_list()


def test_a_slot_of_no_known_server_needs_a_list(slot):
    Slot.objects.update(server_uuid="")
    assert needs_a_list()


# --- In the periodic work ---


@pytest.fixture
def coolify(monkeypatch):
    coolify = Coolify(app_1="running")
    monkeypatch.setattr(observe, "shared_coolify", lambda: coolify)
    return coolify


def due():
    """Let an observation be due again."""
    times = {"looked_at": Now() - timedelta(seconds=4), "resources_asked_at": None}
    Watch.objects.update(**times)


def test_nothing_that_is_decided_by_lists_comes_from_the_short_one(slot, coolify):
    listed = Watch.objects.get()
    due()
    observe.observe_if_due()
    assert coolify.asked == ["server-1"]
    assert Watch.objects.get().observed_at == listed.observed_at
    assert Slot.objects.get().application_state == "running"


def test_the_short_list_is_not_asked_for_more_often_than_the_long_one_would_be(slot, coolify):
    due()
    for _ in range(3):
        observe.observe_if_due()
    assert coolify.asked == ["server-1"]


def test_a_change_brings_the_list_at_once(slot, coolify):
    coolify.states = {"app-1": "exited"}
    due()
    observe.observe_if_due()
    assert coolify.asked == ["server-1", "deployments", "applications"]
    assert Slot.objects.get().application_state == "exited"


def test_a_notification_of_coolify_brings_the_list_itself(slot, coolify):
    Watch.objects.update(wanted_at=Now())
    observe.observe_if_due()
    assert coolify.asked == ["deployments", "applications"]
