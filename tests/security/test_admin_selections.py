"""The rows that are selected for an action of the admin are text from outside."""

import pytest
from django.contrib.admin.sites import site
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from tests.factories import BotFactory
from tests.security.test_admin_lookups import list_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def client(root) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(root)
    return client


@pytest.mark.parametrize("word", ["abc", "7\x00", "9" * 30, "9" * 5_000, "1.5", "²", ""])
def test_a_selection_that_no_row_can_have_breaks_no_action(client, root, word):
    request = RequestFactory().get("/")
    request.user = root
    for model, model_admin in site._registry.items():
        for action in model_admin.get_actions(request):
            form = {"action": action, "_selected_action": [word]}
            answer = client.post(list_of(model), form)
            assert answer.status_code in (200, 302, 400), (model, action)


def test_a_selection_that_cannot_be_read_does_nothing_and_is_one_warning(client, caplog):
    bot = BotFactory()
    form = {"action": "cancel_bot", "_selected_action": [bot.pk, "abc"]}
    assert client.post("/admin/bots/bot/", form).status_code == 400
    [line] = caplog.records
    assert (line.levelname, line.exc_info) == ("WARNING", None)
