"""What an observation stores."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.client.resources import Application, ApplicationStatus
from coolify.client.resources import Deployment as CoolifyDeployment
from pool.controller.observe import observe
from slots.deployment import Watch
from slots.models import Slot
from tests.factories import BotFactory, DeploymentFactory, SlotFactory

pytestmark = pytest.mark.django_db


class Coolify:
    """Lists `app-1`. `meanwhile` happens after it made its list, before the answer arrives."""

    def __init__(self, meanwhile=lambda: None, under_way=()):
        self.meanwhile = meanwhile
        self.under_way = under_way

    def deployments(self, *, observing):
        return [CoolifyDeployment(uuid, "in_progress", "app-1") for uuid in self.under_way]

    def applications(self, *, observing):
        self.meanwhile()
        return [Application("app-1", ApplicationStatus("exited"))]


def test_an_application_that_was_made_after_the_list_is_not_missing():
    SlotFactory(coolify_uuid="app-1")
    observe(Coolify(meanwhile=lambda: SlotFactory(coolify_uuid="app-2")))
    assert not Slot.objects.filter(application_missing=True).exists()


def test_an_application_that_the_list_lacks_is_missing_until_it_is_listed():
    SlotFactory(coolify_uuid="app-1", application_missing=True)
    SlotFactory(coolify_uuid="app-2")
    observe(Coolify())
    missing = Slot.objects.filter(application_missing=True)
    assert [slot.coolify_uuid for slot in missing] == ["app-2"]


def test_a_list_that_shows_nothing_of_ours_is_a_failed_observation():
    """It may be another team's. Else every stop would be confirmed by it, and starts fail."""
    for number in range(2, 6):
        SlotFactory(coolify_uuid=f"app-{number}", application_state="running")
    observe(Coolify())
    watch = Watch.objects.get()
    assert watch.observed_at is None
    assert watch.failing_since is not None
    assert not Slot.objects.filter(application_missing=True).exists()


def is_open_after_coolify_shows_it_under_way(**slot):
    """It counted as ended, because Coolify once said that it had no such deployment."""
    deployment = DeploymentFactory(
        slot=SlotFactory(coolify_uuid="app-1", **slot),
        bot=BotFactory(),
        status="failed",
        ended_at=Now(),
        start_asked_at=Now(),
        deployment_uuid="d-1",
        coolify_ended_at=Now() - timedelta(seconds=1),
    )
    observe(Coolify(under_way=["d-1"]))
    deployment.refresh_from_db()
    return deployment.coolify_ended_at is None


def test_a_stop_has_to_cancel_again_what_coolify_still_carries_out():
    assert is_open_after_coolify_shows_it_under_way(status="stopping", previous_status="deploying")


def test_a_slot_that_is_not_being_stopped_keeps_the_end_that_its_bot_reported():
    """A bot may call before Coolify notes the end of its deployment."""
    assert not is_open_after_coolify_shows_it_under_way(status="idle")
