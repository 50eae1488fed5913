"""The tasks of an operator's first day: from the overview, each takes at most three clicks."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from playwright.sync_api import Page, expect

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, Platform
from coolify.models import Budget
from pool.lifecycle import confirm_slot_stopped, release_bot_from_slot
from slots.deployment import Deployment
from slots.models import Slot
from tests.dashboard.populated import ask, fail, keep_logs, run, sample_an_hour
from tests.factories import BotFactory, DeploymentFactory, SlotFactory

pytestmark = pytest.mark.slow

expect.set_options(timeout=60_000)

MOST_CLICKS = 3
# In the session's storage, because most clicks lead to another page.
COUNT = """addEventListener("mousedown", () => {
  sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1;
}, true)"""


def clicks(page: Page) -> int:
    return page.evaluate("Number(sessionStorage.clicks || 0)")


def start(visitor) -> Page:
    """The overview, with clicks counted from here."""
    visitor.page.add_init_script(COUNT)
    page = visitor.visit("/")
    page.evaluate("sessionStorage.clear()")
    return page


@pytest.fixture
def overview(operator):
    """Opens the overview; afterwards the task must have been short and without complaints."""
    yield lambda: start(operator)
    assert 0 <= clicks(operator.page) <= MOST_CLICKS
    assert operator.complaints == []


def search(page: Page, words: str) -> None:
    page.keyboard.press("/")
    page.keyboard.type(words)
    page.keyboard.press("Enter")


def coolify_is_away() -> None:
    away = {
        "open_since": Now() - timedelta(minutes=3),
        "open_until": Now() + timedelta(minutes=9),
        "open_reason": "Coolify answered the call to start an application with 502.",
    }
    Budget.objects.update_or_create(pk=Budget.THE_ONE, defaults=away)


# --- Why is a bot late? -------------------------------------------------------------------------


def test_a_queued_bot_says_its_place_and_when_it_gives_up(overview, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 0)
    bot = ask()
    page = overview()
    page.get_by_role("link", name="Bots", exact=True).click()
    page.get_by_role("link", name=f"#{bot.pk}").click()
    why = page.locator(".why")
    expect(why).to_contain_text("1st in the Google Meet queue")
    expect(why).to_contain_text("the bot gives up in 4 min")
    assert clicks(page) == 2  # they are counted


def test_a_deploying_bot_shows_which_step_takes_long(overview):
    bot = ask()
    page = overview()
    page.locator(".cell").first.click()
    page.get_by_role("link", name=f"#{bot.pk}").first.click()
    current = page.locator(".waterfall tr[aria-current]")
    expect(current).to_contain_text("Image")
    expect(current).to_contain_text("so far")


@pytest.mark.parametrize("status", ["waiting_for_image", "waiting_for_place", "starting"])
def test_a_bot_that_is_late_because_coolify_is_away_says_so(overview, status):
    bot = ask()
    Deployment.objects.filter(bot=bot).update(status=status)
    coolify_is_away()
    page = overview()
    expect(page.locator("#attention")).to_contain_text("no answer for 3 min")
    search(page, f"#{bot.pk}")
    expect(page.locator(".why")).to_contain_text("Coolify has not answered for 3 min")
    expect(page.locator(".why")).to_contain_text("it is tried again in 8 min")


# --- Slots --------------------------------------------------------------------------------------


def test_a_slot_is_force_released_and_says_by_whom(overview):
    bot = ask()
    slot = run(bot)
    page = overview()
    page.locator(f"#cell-{slot.name}").click()
    page.get_by_role("link", name="Force release").click()
    expect(page.get_by_text(f"Bot #{bot.pk} fails")).to_be_visible()
    page.get_by_label("Reason").press("Enter")  # it is required
    assert Slot.objects.get(pk=slot.pk).status == "busy"
    page.get_by_label("Reason").fill("Stuck in the lobby")
    page.get_by_role("button", name="Force release").click()
    expect(page.get_by_text("Force release: done for 1 slot.")).to_be_visible()
    assert Bot.objects.get(pk=bot.pk).failure_reason.endswith("Stuck in the lobby")
    line = page.locator("tr", has_text="Stuck in the lobby").first
    expect(line).to_contain_text("otto")


def test_who_released_a_slot_is_one_click_away(overview):
    bot = ask()
    slot = run(bot)
    release_bot_from_slot(slot, Outcome(BotStatus.CANCELLED, "Stuck", "user:anna"))
    page = overview()
    page.locator(f"#cell-{slot.name}").click()
    line = page.locator("tr", has_text="Stuck").first
    expect(line.get_by_role("cell").last).to_have_text("anna")


def test_the_failing_slot_is_found_and_taken_out(overview):
    slot = SlotFactory()
    failed = {"status": "failed", "failure_cause": "deployment_failed"}
    for _ in range(3):
        DeploymentFactory(slot=slot, bot=BotFactory(), ended_at=timezone.now(), **failed)
    page = overview()
    row = page.locator("#attention li", has_text=f"{slot.name} failed 3 of its last 3 starts")
    row.get_by_role("link", name="Cordon").click()
    page.get_by_label("Reason").fill("Its starts fail")
    page.get_by_role("button", name="Cordon").click()
    expect(page.get_by_text("Cordon: done for 1 slot.")).to_be_visible()
    assert Slot.objects.get(pk=slot.pk).cordoned


def test_a_slots_page_is_short_on_a_phone(operator):
    for _ in range(6):
        bot = ask()
        slot = run(bot)
        release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Over", f"bot:{bot.pk}"))
        slot.refresh_from_db()
        confirm_slot_stopped(slot, reason="Gone", actor="test")
    operator.page.set_viewport_size({"width": 390, "height": 844})
    page = operator.visit(f"/slots/{slot.name}/")
    expect(page.locator("[id^=line-]")).to_have_count(12)
    assert page.evaluate("document.documentElement.scrollHeight") < 3_000
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_queue_is_short_on_a_phone(operator, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 0)
    for _ in range(10):
        ask()
    operator.page.set_viewport_size({"width": 390, "height": 844})
    page = operator.visit("/queue/?platform=google-meet")
    waiters = page.locator("[id^=waiter-]")
    expect(waiters).to_have_count(10)
    assert max(waiter.bounding_box()["height"] for waiter in waiters.all()) < 200
    assert page.evaluate("document.documentElement.scrollWidth") == 390


# --- Bots ---------------------------------------------------------------------------------------


def test_five_bots_are_cancelled_by_their_numbers(overview):
    bots = [ask() for _ in range(6)]
    page = overview()
    search(page, f"{bots[0].pk}-{bots[4].pk}")
    page.get_by_label("Select all on this page").check()
    expect(page.locator(".actions")).to_contain_text("5 selected")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_label("Reason").fill("Wrong meeting")
    page.get_by_role("button", name="Cancel 5 bots").click()
    expect(page.get_by_text("Cancel: done for 5 bots.")).to_be_visible()
    assert Bot.objects.filter(status=BotStatus.CANCELLED).count() == 5


def test_neighbours_are_selected_with_shift(operator):
    bots = [ask() for _ in range(6)]
    page = operator.visit("/bots/")
    page.get_by_label(f"Select bot {bots[5].pk}", exact=True).click()
    page.get_by_label(f"Select bot {bots[1].pk}", exact=True).click(modifiers=["Shift"])
    expect(page.locator(".actions")).to_contain_text("5 selected")
    expect(page.get_by_label(f"Select bot {bots[0].pk}", exact=True)).not_to_be_checked()


def test_the_log_of_a_failed_bot_is_two_clicks_away(overview):
    bot = ask()
    slot = run(bot)
    fail(bot)
    keep_logs(bot, slot)
    page = overview()
    page.get_by_role("link", name="Bots", exact=True).click()
    page.locator(f"#bot-{bot.pk}").get_by_role("link", name="Logs").click()
    expect(page.locator("#logs [data-log]").first).to_be_visible()


# --- Platforms ----------------------------------------------------------------------------------


def test_a_platform_is_drained_until_it_is_safe(overview):
    slot = run(ask(Platform.ZOOM))
    page = overview()
    page.get_by_role("link", name="Maintenance").click()
    page.get_by_role("link", name="Drain Zoom").click()
    page.get_by_label("Reason").fill("New disk")
    page.get_by_role("button", name="Drain Zoom").click()
    panel = page.locator("#drain-zoom")
    expect(panel).to_contain_text("1 still in use")
    slot.refresh_from_db()
    release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Over", "test"))
    slot.refresh_from_db()
    confirm_slot_stopped(slot, reason="Gone", actor="test")
    expect(panel).to_contain_text("Safe now")


def test_the_size_of_a_pool_is_changed(administrator):
    page = start(administrator)
    page.locator("#card-zoom").get_by_role("link", name="Change size").click()
    expect(page.get_by_label("Maximum slots")).to_be_focused()
    page.get_by_label("Maximum slots").fill("7")
    page.get_by_label("Reason").fill("More meetings")
    page.get_by_role("button", name="Change the size of Zoom").click()
    expect(page.locator("#card-zoom")).to_contain_text("0 of 7 in use")
    assert clicks(page) <= MOST_CLICKS


# --- Looking back -------------------------------------------------------------------------------


def test_yesterdays_load_is_a_chart_with_a_table(overview):
    sample_an_hour()
    page = overview()
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_role("link", name="24 h", exact=True).click()
    expect(page.locator(".plot canvas")).to_have_count(5)
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("columnheader", name="In use").last).to_be_visible()


def test_what_a_list_shows_is_exported(overview):
    bot = ask()
    page = overview()
    page.get_by_role("link", name="Bots", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert f"\n{bot.pk}," in download.value.path().read_text()
