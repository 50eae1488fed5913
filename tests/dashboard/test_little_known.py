"""Pages open even if data is missing."""

import pytest

from coolify.client.errors import Unreachable
from coolify.client.resources import Environment
from dashboard.slots import slot as slot_page
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db


def test_a_bot_whose_history_was_pruned_has_a_page(viewer):
    bot = BotFactory()
    assert viewer.get(f"/bots/{bot.pk}/").status_code == 200


def test_without_a_project_the_link_goes_to_the_start_page_of_coolify(viewer, settings):
    settings.COOLIFY_API_URL = "https://coolify.example/api/v1"
    settings.COOLIFY_PROJECT_UUID = ""
    slot = SlotFactory()
    response = viewer.get(f"/slots/{slot.name}/coolify/")
    assert (response.status_code, response.url) == (302, "https://coolify.example")


# --- The link to a slot's application in Coolify ---

ENVIRONMENT = Environment(id=3, uuid="env-3", name="production")


class Coolify:
    def __init__(self):
        self.calls, self.answer = 0, [ENVIRONMENT]

    def environments(self, project, **options):
        assert options == {"spare": True}
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def coolify(monkeypatch, settings):
    settings.COOLIFY_API_URL = "https://coolify.example/api/v1"
    settings.COOLIFY_PROJECT_UUID = "project-1"
    settings.COOLIFY_ENVIRONMENT_NAME = "production"
    coolify = Coolify()
    monkeypatch.setattr(slot_page, "shared_coolify", lambda: coolify)
    return coolify


def links(viewer, *, times):
    slots = [SlotFactory(coolify_uuid=f"app-{number}") for number in range(times)]
    return [viewer.get(f"/slots/{slot.name}/coolify/").url for slot in slots]


def test_many_links_to_applications_cost_one_call(viewer, coolify):
    place = "https://coolify.example/project/project-1/environment/env-3/application"
    assert links(viewer, times=3) == [f"{place}/app-{number}" for number in range(3)]
    assert coolify.calls == 1


@pytest.mark.parametrize("answer", [[], Unreachable("It timed out")])
def test_links_without_an_environment_cost_one_call(viewer, coolify, answer):
    coolify.answer = answer
    assert links(viewer, times=3) == ["https://coolify.example"] * 3
    assert coolify.calls == 1
