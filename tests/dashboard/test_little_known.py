"""Pages open even if data is missing."""

import pytest

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
