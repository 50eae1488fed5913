"""The form for a new bot, sent twice."""

import re

import pytest

from bots.models import Bot, Client
from tests.concurrency import at_once
from tests.dashboard.conftest import logged_in
from tests.factories import SlotFactory

FORM = {
    "meeting_url": "https://zoom.us/j/123456789",
    "display_name": "Minutes",
    "priority": "7",
    "form_key": "from-the-page",
}


def send(client, **changes):
    return client.post("/bots/new/", FORM | changes)


@pytest.mark.django_db
@pytest.mark.parametrize("page", ["/", "/bots/new/"])
def test_each_form_has_a_key_of_its_own(operator, page):
    found = [
        re.findall(r'name="form_key" value="([\w-]+)"', operator.get(page).text) for _ in range(2)
    ]
    assert [len(keys) for keys in found] == [1, 1]
    assert found[0] != found[1]


@pytest.mark.django_db
def test_a_form_sent_twice_leads_to_the_first_bot(operator):
    answers = [send(operator) for _ in range(2)]
    bot = Bot.objects.get()
    assert [answer.url for answer in answers] == [f"/bots/{bot.pk}/"] * 2
    assert "already sent" in operator.get(f"/bots/{bot.pk}/").text


@pytest.mark.django_db
def test_a_form_sent_twice_is_one_action_of_the_operator(operator):
    for _ in range(2):
        send(operator)
    assert operator.get("/activity/?show=operators").text.count("Requested in the dashboard") == 1


@pytest.mark.django_db
def test_a_form_that_was_changed_after_going_back_sends_another_bot(operator):
    send(operator)
    send(operator, meeting_url="https://zoom.us/j/987654321")
    assert Bot.objects.count() == 2


@pytest.mark.django_db
def test_a_new_form_sends_another_bot_to_the_same_meeting(operator):
    send(operator)
    send(operator, form_key="from-the-next-page")
    assert Bot.objects.count() == 2


@pytest.mark.django_db
def test_the_same_key_of_another_operator_sends_a_bot(operator, administrator):
    send(operator)
    send(administrator)
    assert Bot.objects.count() == 2


@pytest.mark.django_db
def test_a_form_with_errors_keeps_its_key(operator):
    assert 'name="form_key" value="from-the-page"' in send(operator, priority="many").text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("most", [None, 1])
def test_a_form_sent_twice_at_once_makes_one_bot(operator, most):
    for _ in range(2):
        SlotFactory(platform="zoom")
    Client.objects.create(name="Operators", max_bots=most)
    user = operator.get("/").context["user"]
    answers = at_once([lambda: send(logged_in(user)) for _ in range(2)])
    bot = Bot.objects.get()
    assert [answer.url for answer in answers] == [f"/bots/{bot.pk}/"] * 2
