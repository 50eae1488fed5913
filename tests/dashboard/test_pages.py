"""Every page opens with an empty and a full pool, in a fixed number of queries."""

import re

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus
from pool.lifecycle import end_bot
from slots.models import Deployment, Slot
from tests.dashboard.populated import ask, finish, populate, run, sample_an_hour
from tests.factories import SlotFactory

PAGES = [
    "/",
    "/slots/",
    "/bots/",
    "/queue/",
    "/deployments/",
    "/servers/",
    "/clients/",
    "/webhooks/",
    "/notifications/",
    "/notifications/log/",
    "/activity/",
    "/activity/?show=bots",
    "/activity/?show=repairs",
    "/activity/?show=operators",
    "/activity/?show=leases",
    "/activity/?show=parts",
]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_with_an_empty_pool(operator, page):
    assert operator.get(page).status_code == 200


def test_every_page_opens_with_a_full_pool(operator, settings):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 12}
    populate(12)
    sample_an_hour()
    assert Slot.objects.count() == 12
    assert Bot.objects.count() == 12
    ask()
    ask(priority=5)
    assert {page: operator.get(page).status_code for page in PAGES} == dict.fromkeys(PAGES, 200)


@pytest.mark.parametrize("page", ["/slots/{slot}/", "/bots/{bot}/"])
def test_slots_and_bots_have_a_page_in_every_state(operator, page):
    bots = populate(6)
    for slot, bot in zip(Slot.objects.order_by("id"), bots, strict=True):
        address = page.format(slot=slot.name, bot=bot.pk)
        assert operator.get(address).status_code == 200


def test_a_page_needs_as_many_queries_for_100_slots_as_for_12(operator, settings):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 12}
    populate(12)  # a slot of each status
    waiter = next(bot for bot in iter(ask, None) if bot.status == BotStatus.QUEUED)
    few = {page: _queries(operator, page) for page in PAGES}
    end_bot(waiter, Outcome(BotStatus.CANCELLED, "No longer needed", "test"))
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 100}
    populate(84)
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 0}
    for _ in range(10):
        ask()
    assert Slot.objects.count() > 80
    assert {page: _queries(operator, page) for page in PAGES} == few


def _queries(client, page):
    cache.clear()
    with CaptureQueriesContext(connection) as captured:
        assert client.get(page).status_code == 200
    return len(captured)


def test_a_slot_shows_deployments_of_pruned_bots(viewer):
    bot = ask()
    slot = run(bot)
    finish(bot)
    Bot.objects.filter(pk=bot.pk).delete()
    row = f'id="deployment-{Deployment.objects.get().pk}"'
    assert row in viewer.get(f"/slots/{slot.name}/").text


def test_a_slot_whose_stop_was_refused_says_what_is_wrong(viewer):
    stopping = {"status": "stopping", "previous_status": "busy", "stop_attempts": 1}
    slot = SlotFactory(**stopping, stop_asked_at=Now(), stop_refused_at=Now())
    page = viewer.get(f"/slots/{slot.name}/").text
    assert "Coolify reports the container as stopped, but it still runs." in page
    assert "it still runs, so Coolify is asked again after" in page


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/bots/new/", "Bots"),
        ("/webhooks/new/", "Clients"),
        ("/notifications/channels/new/", "Notifications"),
        ("/notifications/rules/new/", "Notifications"),
    ],
)
def test_a_form_is_part_of_its_page_in_the_header(administrator, path, name):
    assert f'aria-current="page">{name}</a>' in administrator.get(path).text


def test_a_problem_and_its_next_step_are_two_sentences(operator):
    SlotFactory(status="error", previous_status="deploying", error="Coolify refused")
    page = operator.get("/").text
    assert re.search(r'</a>\. <span class="next">[A-Z]', page)
