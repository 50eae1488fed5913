"""Operator journeys in a real browser."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool.assign import assign_bot_to_slot
from pool.lifecycle import confirm_slot_stopped, mark_slot_running, release_bot_from_slot
from slots.models import Slot
from tests.browser.conftest import Visitor
from tests.dashboard.conftest import PASSWORD, make_user
from tests.dashboard.populated import ask, fail, populate, run
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.slow

SOON = 60_000  # ms; pages change within two seconds, but the machine may be busy
expect.set_options(timeout=SOON)


def has_class(locator, name):
    expect(locator).to_have_class(f"cell {name}", timeout=SOON)


def test_the_overview_follows_a_slot_without_a_reload(operator):
    slot = SlotFactory(number=1)
    page = operator.visit("/")
    cell = page.locator("#cell-pool-google-meet-001")
    has_class(cell, "idle")
    page.evaluate("window.sameDocument = true")

    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    has_class(cell, "deploying")
    assert mark_slot_running(slot, reason="Runs", actor="test")
    has_class(cell, "busy")
    assert release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Over", "test"))
    slot.refresh_from_db()
    has_class(cell, "stopping")
    assert confirm_slot_stopped(slot, reason="Gone", actor="test")
    has_class(cell, "idle")

    assert page.evaluate("window.sameDocument")
    assert operator.complaints == []


def test_an_update_keeps_scroll_focus_input_and_selection(operator):
    populate(60)
    page = operator.visit("/slots/")
    box = page.get_by_label("Select pool-google-meet-050", exact=True)
    box.check()
    page.get_by_placeholder("Name, bot number").fill("half a wor")
    link = page.get_by_role("link", name="pool-google-meet-045", exact=True)
    link.focus()
    scrolled = page.evaluate("window.scrollY")
    assert scrolled > 0

    busy = Slot.objects.filter(status="busy", number__lte=50).order_by("-pk").first()
    release_bot_from_slot(busy, Outcome(BotStatus.DONE, "Over", "test"))
    expect(page.locator(f"#slot-{busy.pk}")).to_contain_text("stopping", timeout=SOON)

    assert box.is_checked()
    assert page.get_by_placeholder("Name, bot number").input_value() == "half a wor"
    assert link.evaluate("link => link === document.activeElement")
    assert page.evaluate("window.scrollY") == scrolled


def test_a_bot_is_queued_and_its_place_is_updated(operator, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 0)
    first = ask()
    page = operator.visit("/")
    page.get_by_label("Meeting address").fill("https://meet.google.com/abc-defg-hij")
    page.get_by_role("button", name="Send bot").click()
    expect(page.get_by_text("2nd in the Google Meet queue")).to_be_visible()
    page.get_by_role("link", name="Queue", exact=True).click()
    mine = Bot.objects.latest("pk")
    expect(page.locator(f"#waiter-{mine.pk}")).to_contain_text("1 bot is ahead of it.")

    from pool.lifecycle import end_bot

    end_bot(first, Outcome(BotStatus.CANCELLED, "Over", "test"))
    row = page.locator(f"#waiter-{mine.pk}")
    expect(row).to_contain_text("It is next in line.", timeout=SOON)


def test_an_action_applies_to_all_that_match_the_filter(operator):
    google = [run(ask()) for _ in range(3)]
    teams = run(ask(Platform.TEAMS))
    page = operator.visit("/slots/?platform=google-meet&status=busy")
    page.get_by_label("all 3 that match the filter").check()
    page.get_by_role("button", name="Cordon", exact=True).click()
    expect(page.get_by_text("3 slots will be changed")).to_be_visible()
    page.get_by_label("Reason").fill("Maintenance")
    page.get_by_role("button", name="Cordon 3").click()
    expect(page.get_by_text("Cordon: done for 3 slots.")).to_be_visible()
    assert all(Slot.objects.get(pk=slot.pk).cordoned for slot in google)
    assert not Slot.objects.get(pk=teams.pk).cordoned


def test_a_viewer_is_refused(viewer):
    slot = run(ask())
    page = viewer.visit(f"/slots/{slot.name}/")
    expect(page.get_by_role("heading", name=slot.name)).to_be_visible()
    expect(page.get_by_role("link", name="Force release")).to_have_count(0)
    page = viewer.visit(f"/actions/force-release/?item={slot.pk}")
    expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()


def test_a_lost_connection_is_shown_and_recovers(operator):
    SlotFactory(number=1)
    page = operator.visit("/")
    sign = page.locator("#connection")
    expect(sign).to_have_text("Live")
    operator.context.set_offline(True)
    expect(sign).to_have_text("Connection lost, retrying", timeout=SOON)
    assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    operator.context.set_offline(False)
    expect(sign).to_have_text("Live", timeout=SOON)
    has_class(page.locator("#cell-pool-google-meet-001"), "deploying")


def test_a_hidden_page_pauses(operator):
    SlotFactory(number=1)
    page = operator.visit("/")
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true})")
    expect(page.locator("#connection")).to_have_text("Paused", timeout=SOON)
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.wait_for_timeout(2_500)
    assert requested == []


def test_it_works_without_javascript(browser, live_server):
    make_user("otto", "operator", password=PASSWORD)
    slot = run(ask())
    context = browser.new_context(java_script_enabled=False)
    visitor = Visitor(context, live_server.url)
    visitor.log_in("otto")
    page = visitor.visit("/slots/")
    page.get_by_label(f"Select {slot.name}").check()
    page.get_by_role("button", name="Stop").click()
    page.get_by_label("Reason").fill("Over")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stop: done for 1 slot.")).to_be_visible()
    assert Slot.objects.get(pk=slot.pk).status == "stopping"
    context.close()


def test_a_small_screen_shows_every_entry_of_the_navigation(operator):
    page = operator.page
    page.set_viewport_size({"width": 390, "height": 844})
    header = page.locator("header.top")
    assert header.bounding_box()["height"] < 60  # one row
    page.get_by_role("button", name="Menu").click()
    for entry in page.get_by_role("navigation").get_by_role("link").all():
        expect(entry).to_be_in_viewport(ratio=1)


def test_the_keyboard_is_enough(operator):
    run(ask())
    page = operator.visit("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    cell = page.locator(".cell").first
    cell.focus()
    tip = "element => getComputedStyle(element, '::after').content"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert "pool-google-meet-001" in cell.evaluate(tip)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="pool-google-meet-001")).to_be_visible()


def test_the_search_is_one_key_away_from_any_page(operator):
    bot = ask()
    page = operator.visit("/activity/")
    page.keyboard.press("/")
    page.keyboard.type(f"#{bot.pk}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Bot #{bot.pk}")).to_be_visible()
    assert operator.complaints == []


def test_shortcuts_lead_to_pages_and_are_listed(operator):
    page = operator.visit("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url(f"{operator.url}/queue/")
    assert operator.complaints == []


def test_the_bar_counts_the_selected_and_stays_in_view(operator):
    SlotFactory.create_batch(40)
    page = operator.visit("/slots/")
    bar = page.locator(".actions")
    expect(bar).to_be_in_viewport()
    expect(bar).to_contain_text("None selected")
    page.get_by_label("Select all on this page").check()
    expect(bar).to_contain_text("40 selected")
    page.get_by_label("Select pool-google-meet-", exact=False).first.uncheck()
    expect(bar).to_contain_text("39 selected")


def test_rows_can_be_compact_and_stay_so(operator):
    SlotFactory()
    page = operator.visit("/slots/")
    page.get_by_role("button", name="Compact").click()
    page.reload()
    button = page.get_by_role("button", name="Compact")
    expect(button).to_have_attribute("aria-pressed", "true")


def test_times_are_local_with_utc_on_hover(browser, live_server):
    make_user("otto", "operator", password=PASSWORD)
    bot = ask()
    Bot.objects.filter(pk=bot.pk).update(created_at=datetime(2025, 1, 16, 21, 30, tzinfo=UTC))
    context = browser.new_context(timezone_id="Asia/Tokyo")
    visitor = Visitor(context, live_server.url)
    visitor.log_in("otto")
    page = visitor.visit(f"/bots/{bot.pk}/")
    requested = page.locator("time[datetime='2025-01-16T21:30:00Z']").first
    expect(requested).to_have_text("17 Jan 2025 06:30:00 GMT+9")
    assert requested.get_attribute("title").endswith("2025-01-16 21:30:00 UTC")
    context.close()


def test_advice_has_a_button_that_does_it(operator):
    bot = ask()
    run(bot)
    fail(bot)
    page = operator.visit("/")
    page.locator("#attention").get_by_role("link", name="Retry").click()
    page.get_by_label("Reason").fill("Fixed")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Retry: done for 1 slot.")).to_be_visible()


def test_the_admin_has_the_header_and_the_local_times_of_the_pages(administrator):
    slot = SlotFactory(number=1)
    page = administrator.visit("/")
    page.get_by_role("link", name="Admin").click()
    page.get_by_role("link", name="Slots", exact=True).last.click()
    expect(page.locator("#result_list .badge.idle")).to_have_text("idle")
    expect(page.locator("#result_list time").first).to_have_attribute("data-clock", "")
    page.get_by_role("link", name=slot.name).click()
    page.get_by_role("link", name="Open its page").click()
    expect(page.get_by_role("heading", name=slot.name)).to_be_visible()
    assert administrator.complaints == []
