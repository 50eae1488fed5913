"""What pages say about bots that wait."""

import re

import pytest
from django.core.cache import cache

from dashboard.templatetags.pool import readable
from pool.lifecycle import get_slot_for_bot
from pool.steering import pause_platform
from pool.waiting.waiting_for import waiting_for
from slots.models import Deployment
from tests.dashboard.populated import ask, run
from tests.dashboard.test_live import ask_again, shown_version
from tests.queued import pool_of


@pytest.fixture
def waiting():
    """A bot that is the second to wait for a build place."""
    ask()
    bot = ask()
    Deployment.objects.update(status="waiting_for_place")
    return bot


def pages_of(bot):
    slot = get_slot_for_bot(bot)
    return [f"/bots/{bot.pk}/", f"/slots/{slot.name}/", "/deployments/"]


def sentence_about(bot):
    return readable(waiting_for(bot).message)


def test_every_page_of_a_deploying_bot_says_what_it_waits_for(viewer, waiting):
    sentence = sentence_about(waiting)
    assert sentence.startswith("2nd of 2 for 2 build places, about 30 s; the bot gives up <time ")
    for page in pages_of(waiting):
        assert sentence in viewer.get(page).text, page


def test_the_page_of_a_deploying_bot_shows_its_place_and_the_expected_time(viewer, waiting):
    page = viewer.get(f"/bots/{waiting.pk}/").text
    assert '<p class="why">2nd of 2' in page
    assert "<dt>Waiting for</dt><dd>Build place</dd>" in page
    assert re.search(r"<dt>Expected</dt><dd><time [^>]*data-until", page)


def test_the_page_of_a_queued_bot_shows_its_place_and_the_expected_time(viewer, settings):
    pool_of(settings, 1)
    ask()
    bot = ask()
    page = viewer.get(f"/bots/{bot.pk}/").text
    assert sentence_about(bot) in page
    assert '<p class="why">1st in the Google Meet queue' in page
    assert "<dt>Waiting for</dt><dd>Slot</dd>" in page
    assert re.search(r"<dt>Expected</dt><dd><time [^>]*data-until", page)


def test_a_bot_of_a_paused_platform_is_told_so(viewer):
    pause_platform("google-meet", reason="New image", actor="alice")
    page = viewer.get(f"/bots/{ask().pk}/").text
    assert "Google Meet is paused until it is resumed; 1st in the queue" in page
    assert "<dt>Expected</dt><dd>unknown</dd>" in page


def test_the_reason_of_a_failed_start_is_shown_escaped(viewer, waiting):
    now = waiting.created_at
    Deployment.objects.update(
        status="starting", next_try_at=now.replace(year=now.year + 1), reason="<b>502</b>"
    )
    for page in pages_of(waiting):
        shown = viewer.get(page).text
        assert "&lt;b&gt;502&lt;/b&gt;" in shown, page
        assert "<b>502" not in shown, page


def test_a_bot_that_runs_joins_its_call(viewer):
    bot = ask()
    slot = run(bot)
    for page in (f"/bots/{bot.pk}/", f"/slots/{slot.name}/"):
        assert "has been joining the call" in viewer.get(page).text


@pytest.mark.django_db(transaction=True)  # rows show that they were changed by another one
def test_an_open_page_changes_with_the_line(viewer, waiting, monkeypatch):
    monkeypatch.setattr("dashboard.live.ESTIMATES_HOLD_FOR", 1e12)
    versions = {page: shown_version(viewer.get(page).text) for page in pages_of(waiting)}
    for page, version in versions.items():
        assert ask_again(viewer, page, version).status_code == 204, page
    cache.clear()
    Deployment.objects.exclude(bot=waiting).update(status="starting")
    for page, version in versions.items():
        assert "1st of 1 for 2 build places" in ask_again(viewer, page, version).text, page


def test_the_estimates_of_an_open_page_are_renewed(viewer, waiting, monkeypatch):
    for page in pages_of(waiting):
        monkeypatch.setattr("dashboard.live.ESTIMATES_HOLD_FOR", 1e12)
        version = shown_version(viewer.get(page).text)
        monkeypatch.setattr("dashboard.live.ESTIMATES_HOLD_FOR", 1e-6)
        assert ask_again(viewer, page, version).status_code == 200, page
