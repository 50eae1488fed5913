"""What the confirmation pages say: the words of the button that led there, and the effect."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from bots.status import Platform
from coolify.models import Budget
from pool.waiting.words import name_of
from tests.dashboard.populated import ask, run
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db


def test_draining_a_platform_is_called_so(operator):
    page = operator.get("/maintenance/").text
    assert 'href="/actions/drain/?item=zoom' in page
    assert "<h1>Drain Zoom?</h1>" in operator.get("/actions/drain/?item=zoom").text


def test_trying_coolify_is_called_so(operator):
    away = {"open_since": Now(), "open_until": Now() + timedelta(minutes=1), "open_reason": "502"}
    Budget.objects.update_or_create(pk=Budget.THE_ONE, defaults=away)
    assert "/actions/try-coolify/?item=circuit" in operator.get("/").text
    assert "<h1>Try Coolify now?</h1>" in operator.get("/actions/try-coolify/?item=circuit").text


def test_the_size_comes_first_and_is_the_current_one(administrator, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 7)
    assert "/actions/resize/?item=zoom&amp;size=7" in administrator.get("/").text
    page = administrator.get("/actions/resize/?item=zoom&size=7").text
    assert page.index('value="7"') < page.index('name="reason"')


def test_an_action_without_bots_has_no_columns_for_them(operator):
    page = operator.get("/actions/drain/?item=zoom").text
    assert "<th>Meeting</th>" not in page
    assert "will be changed" not in page  # the heading names the only target


def test_cancelling_says_what_becomes_of_each_bot(operator, settings):
    starting, meeting = ask(), ask()
    run(meeting)
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 0)
    queued = ask(Platform.ZOOM)
    items = "&".join(f"item={bot.pk}" for bot in (starting, meeting, queued))
    page = operator.get(f"/actions/cancel-bot/?{items}").text
    assert "Its start ends; pool-google-meet-001 stops" in page
    assert "Leaves its meeting; pool-google-meet-002 stops" in page
    assert "Leaves the queue" in page


@pytest.mark.parametrize(
    ("actor", "name"),
    [("user:otto", "otto"), ("key:app", "API key app"), ("bot:7", "bot #7"), ("queue", "queue")],
)
def test_actors_have_names(actor, name):
    assert name_of(actor) == name


def test_more_targets_than_are_listed_are_counted(operator, monkeypatch):
    monkeypatch.setattr("dashboard.actions.action.SHOWN", 2)
    SlotFactory.create_batch(5)
    page = operator.get("/actions/cordon/?all=slots").text
    assert "<h1>Cordon 5 slots?</h1>" in page
    assert "and 3 more" in page
    page = operator.get("/actions/uncordon/?all=slots").text  # none of them is cordoned
    assert "and 3 more" in page
