"""Coolify's notifications: which of them trigger an observation, and how often."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from core.clock import database_now
from pool.controller import observe as observe_module
from pool.controller.observe import OUT_OF_TURN, observe_if_due
from slots.deployment import Watch
from tests.api.conftest import Api
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db


def notify(settings, body=None):
    answer = Api().post(f"coolify/webhook/{settings.COOLIFY_WEBHOOK_SECRET}", body)
    assert answer.status_code == 204


def wanted():
    return Watch.objects.values_list("wanted_at", flat=True).first()


def test_a_notification_about_one_of_our_applications_triggers_an_observation(settings):
    slot = SlotFactory()
    notify(settings, {"event": "deployment_failed", "application_uuid": slot.coolify_uuid})
    assert wanted() is not None


def test_one_about_one_of_our_servers_does_too(settings):
    settings.COOLIFY_SERVER_UUIDS = ["server-1"]
    notify(settings, {"event": "server_unreachable", "server_uuid": "server-1"})
    assert wanted() is not None


@pytest.mark.parametrize(
    "body",
    [
        {"event": "deployment_success", "application_uuid": "of-another-project"},
        {"event": "deployment_success", "application_uuid": ""},
        {"event": "deployment_success", "application_uuid": ["app-google-meet-1"]},
        {"event": "deployment_success", "application_uuid": "\u0000"},
        {"event": "deployment_success", "application_uuid": "\ud800"},
        {"event": "server_reachable", "server_uuid": "of-others"},
        {},
        [],
        "text",
        None,
    ],
)
def test_other_notifications_trigger_none(settings, body):
    SlotFactory(coolify_uuid="")
    settings.COOLIFY_SERVER_UUIDS = ["server-1"]
    notify(settings, body)
    assert wanted() is None


@pytest.mark.parametrize("server", ["\u0000", "\ud800", ["a"]])
def test_a_clean_up_on_an_odd_server_is_no_error(settings, server):
    about = {"application_uuid": SlotFactory().coolify_uuid, "server_uuid": server}
    notify(settings, {"event": "docker_cleanup_success", **about})
    assert wanted() is not None


def test_many_notifications_trigger_one_observation_in_five_seconds(settings, monkeypatch):
    observed = []
    monkeypatch.setattr(observe_module, "observation_is_due", lambda **when: False)
    monkeypatch.setattr(observe_module, "observe", lambda coolify: observed.append(_looked()))
    slot = SlotFactory()
    about = {"application_uuid": slot.coolify_uuid}
    for _ in range(20):
        notify(settings, about)
        observe_if_due()
    assert len(observed) == 1
    # The later ones are answered together, once the time is over.
    again = wanted()
    assert again > database_now()
    Watch.objects.update(wanted_at=Now(), looked_at=Now() - OUT_OF_TURN)
    observe_if_due()
    assert len(observed) == 2


def _looked():
    Watch.objects.update(looked_at=database_now())


def test_after_a_rest_the_next_one_triggers_an_observation_at_once(settings):
    slot = SlotFactory()
    Watch.objects.create(wanted_at=database_now() - timedelta(minutes=1))
    notify(settings, {"application_uuid": slot.coolify_uuid})
    assert database_now() - wanted() < timedelta(seconds=30)
    assert wanted() <= database_now()
