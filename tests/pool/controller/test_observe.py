"""What an observation stores."""

import pytest

from coolify.client.resources import Application, ApplicationStatus
from pool.controller.observe import observe
from slots.deployment import Watch
from slots.models import Slot
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db


class Coolify:
    """Lists `app-1`. `meanwhile` happens after it made its list, before the answer arrives."""

    def __init__(self, meanwhile=lambda: None):
        self.meanwhile = meanwhile

    def deployments(self, *, observing):
        return []

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
