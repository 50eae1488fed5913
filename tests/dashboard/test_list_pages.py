"""Lists: pages, filters, CSV and the search over everything."""

import pytest
from django.utils import timezone

from bots.models import Bot
from pool.lifecycle import get_slot_for_bot
from slots.models import Deployment
from tests.dashboard.populated import ask, fail, run
from tests.factories import BotFactory, DeploymentFactory, SlotFactory
from tests.queued import pool_of


def lines(answer):
    assert answer["Content-Type"].startswith("text/csv")
    return b"".join(answer.streaming_content).decode().splitlines()


# --- Pages -------------------------------------------------------------------------------------


def test_slots_come_in_pages(viewer):
    SlotFactory.create_batch(51)
    first = viewer.get("/slots/").text
    assert "51 slots, page 1 of 2" in first
    assert first.count('<tr id="slot-') == 50
    second = viewer.get("/slots/?page=2").text
    assert second.count('<tr id="slot-') == 1
    # A page beyond the last one shows the last.
    assert viewer.get("/slots/?page=99").text.count('<tr id="slot-') == 1


def test_filters_and_sort_stay_in_the_links(viewer):
    SlotFactory.create_batch(51)
    page = viewer.get("/slots/?platform=google-meet&sort=used").text
    assert "?platform=google-meet&amp;sort=used&amp;page=2" in page
    assert '<input type="hidden" name="sort" value="used">' in page
    assert "?platform=google-meet&amp;sort=used&amp;format=csv" in page


def test_each_list_says_what_unfinished_ones_wait_for(viewer):
    ask()
    for page in ("/bots/", "/slots/"):
        assert "The bot is about to be started." in viewer.get(page).text


def test_a_slot_in_error_says_what_comes_next(viewer):
    fail(ask())
    page = viewer.get("/slots/?status=error").text
    assert "Container crashed" in page
    assert "It gets no bot." in page


def test_a_waiter_that_gives_up_before_its_turn_is_marked(viewer, settings):
    pool_of(settings, 1)
    run(ask())
    ask()
    assert "before its turn" in viewer.get("/queue/").text


# --- CSV ---------------------------------------------------------------------------------------


def test_bots_as_csv(viewer):
    bot = ask(display_name="=cmd()")
    header, row = lines(viewer.get("/bots/?format=csv"))
    assert header.startswith("id,status,status_since,platform,display_name,meeting_url")
    assert row.startswith(f"{bot.pk},DEPLOYING,")
    assert ",'=cmd()," in row


def test_a_csv_holds_what_the_filter_shows(viewer):
    ask()
    assert len(lines(viewer.get("/bots/?format=csv&platform=zoom"))) == 1
    assert len(lines(viewer.get("/slots/?format=csv&status=busy"))) == 1
    assert len(lines(viewer.get("/deployments/?format=csv&status=failed"))) == 1
    assert len(lines(viewer.get("/queue/?format=csv&platform=zoom"))) == 1


def test_slots_as_csv(viewer):
    bot = ask()
    header, row = lines(viewer.get("/slots/?format=csv"))
    assert header.endswith(",waits_for")
    assert row.startswith("pool-google-meet-001,google-meet,deploying,")
    assert f",{bot.pk},False," in row
    assert row.endswith("The bot is about to be started.")


def test_deployments_as_csv(viewer):
    bot = ask()
    _, row = lines(viewer.get("/deployments/?format=csv"))
    assert row.split(",")[1:4] == ["pool-google-meet-001", str(bot.pk), "waiting_for_image"]


def test_the_queue_as_csv(viewer, settings):
    pool_of(settings, 0)
    bots = [ask(), ask()]
    rows = lines(viewer.get("/queue/?format=csv"))[1:]
    assert [row.split(",")[:3] for row in rows] == [
        ["google-meet", str(place), str(bot.pk)] for place, bot in enumerate(bots, start=1)
    ]


# --- Search ------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["{pk}", "#{pk}", " {pk} ", "{correlation_id}"])
def test_the_search_goes_straight_to_a_bot(viewer, words):
    bot = ask()
    given = words.format(pk=bot.pk, correlation_id=bot.correlation_id)
    assert viewer.get("/search/", {"q": given}).url == f"/bots/{bot.pk}/"


def test_the_search_goes_straight_to_a_slot(viewer):
    ask()
    found = viewer.get("/search/", {"q": "pool-google-meet-001"})
    assert found.url == "/slots/pool-google-meet-001/"


def test_the_search_finds_a_coolify_uuid(viewer):
    bot = ask()
    run(bot)
    Bot.objects.update(coolify_service_uuid=get_slot_for_bot(bot).coolify_uuid)
    uuid = get_slot_for_bot(bot).coolify_uuid
    page = viewer.get("/search/", {"q": uuid}).text
    assert f'<a href="/bots/{bot.pk}/">' in page
    assert '<a href="/slots/pool-google-meet-001/">' in page


def test_the_search_finds_a_deployment_uuid(viewer):
    bot = ask()
    Deployment.objects.update(deployment_uuid="dep123")
    assert f'<a href="/bots/{bot.pk}/">' in viewer.get("/search/", {"q": "dep123"}).text


def test_the_search_finds_a_meeting(viewer):
    bot = ask()
    assert f"#{bot.pk}</a>" in viewer.get("/search/", {"q": "abc-defg-hij"}).text


@pytest.mark.parametrize("words", ["", "nothing-like-this", "99999999999999999999", "<b>"])
def test_a_search_without_a_result_says_what_can_be_found(viewer, words):
    page = viewer.get("/search/", {"q": words}).text
    assert "bot numbers (7, or 101-105), a slot name, meeting address" in page
    assert "<b>" not in page.partition("<main")[2]


# --- Failures ----------------------------------------------------------------------------------


def test_the_slot_that_fails_most_comes_first(viewer):
    good, bad = SlotFactory(), SlotFactory()
    for _ in range(2):
        DeploymentFactory(slot=bad, bot=BotFactory(), status="failed", ended_at=timezone.now())
    page = viewer.get("/slots/?sort=failures").text
    assert page.index(f'id="slot-{bad.pk}"') < page.index(f'id="slot-{good.pk}"')
    assert '<b class="error">2</b>' in page


def test_quarantined_slots_can_be_listed(viewer):
    slot, other = SlotFactory(cordoned=True, quarantined=True), SlotFactory(cordoned=True)
    page = viewer.get("/slots/?cordoned=quarantined").text
    assert f'id="slot-{slot.pk}"' in page
    assert f'id="slot-{other.pk}"' not in page
    assert '<span class="badge error">quarantined</span>' in page
