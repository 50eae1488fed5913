"""Live updates of open pages, and what pages show."""

import re
import time
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db.models import F

from botpool.telemetry.samples import sample_pools
from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from core.clock import database_now
from core.leases import acquire_lease
from dashboard import unchanged
from dashboard.lists.csv_export import _cell
from dashboard.models import PoolSample
from dashboard.templatetags.pool import age, readable
from pool.lifecycle import end_bot, get_slot_for_bot, handle_slot_error
from pool.steering import pause_platform
from pool.sweep import sweep_queue
from slots.models import Finding, Pool, Slot
from tests.dashboard.populated import ask, populate, run
from tests.factories import SlotFactory
from tests.queued import pool_of, time_passes

HTMX = {"HX-Request": "true"}
PAGES = ["/", "/slots/", "/bots/", "/queue/", "/deployments/", "/activity/?show=slots"]


def shown_version(html):
    return re.search(r'data-version="(\w+)"', html)[1]


def ask_again(client, page, version):
    mark = "&" if "?" in page else "?"
    return client.get(f"{page}{mark}live={version}", headers=HTMX)


def test_a_stale_reading_of_the_container_is_no_fact(viewer):
    slot = run(ask())
    then = database_now()
    before, after = then - timedelta(minutes=1), then + timedelta(minutes=1)
    stopped = {"container_status": "STOPPED", "last_assigned_at": before - timedelta(minutes=1)}
    Slot.objects.filter(pk=slot.pk).update(container_seen_at=before, **stopped)
    assert "not observed yet" in viewer.get("/slots/").text
    # Seen after the bot was heard, it contradicts the slot.
    cache.clear()
    Slot.objects.filter(pk=slot.pk).update(container_seen_at=after)
    assert '<span class="badge error">stopped</span>' in viewer.get("/slots/").text


def test_the_overview_has_a_headline(viewer, settings):
    settings.MAX_POOL_SIZES = {"google-meet": 1, "teams": 2, "zoom": 0}
    run(ask())
    ask()
    ask(Platform.TEAMS)
    page = viewer.get("/").text
    headline = re.sub("<[^>]+>", "", page.partition('<p class="headline">')[2].partition("</p>")[0])
    assert headline.startswith("0 in call · 1 joining or leaving · 1 starting · 1 waiting · next")


def test_a_cell_of_the_grid_names_its_bot(viewer):
    bot = ask(display_name="Minutes <b>")
    page = viewer.get("/").text
    assert f'aria-label="pool-google-meet-001: starting, bot #{bot.pk} Minutes &lt;b&gt;"' in page
    assert "data-expected=" in page


@pytest.mark.parametrize("page", PAGES)
def test_it_answers_204_while_nothing_has_changed(viewer, page, monkeypatch):
    monkeypatch.setattr(
        "dashboard.live.ESTIMATES_HOLD_FOR", 1e12
    )  # a new estimate would be a change
    populate(4)
    version = shown_version(viewer.get(page).text)
    assert ask_again(viewer, page, version).status_code == 204


@pytest.mark.parametrize("page", ["/", "/queue/"])
def test_the_wait_of_a_bot_that_lost_its_slot_starts_again(viewer, page, settings):
    pool_of(settings, 0)
    bot = ask()
    time_passes(bot, minutes=4)
    SlotFactory()
    sweep_queue()
    assert handle_slot_error(
        get_slot_for_bot(bot), "It failed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    bot.refresh_from_db()
    shown = viewer.get(page).text
    assert age(bot.status_since) in shown
    assert age(bot.queued_at) not in shown


@pytest.mark.parametrize("page", PAGES)
def test_it_sends_only_the_live_part_after_a_change(viewer, page, settings):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 3}
    bots = [ask() for _ in range(4)]
    version = shown_version(viewer.get(page).text)
    end_bot(bots[-1], Outcome(BotStatus.CANCELLED, "Over", "test"))
    run(bots[0])
    answer = ask_again(viewer, page, version)
    assert answer.status_code == 200
    assert answer.text.startswith('<div id="live"')
    assert "<html" not in answer.text
    assert shown_version(answer.text) != version


def test_a_different_filter_is_a_different_version(viewer):
    populate(2)
    version = shown_version(viewer.get("/slots/").text)
    assert ask_again(viewer, "/slots/?platform=google-meet", version).status_code == 200


def test_an_open_page_does_not_turn_into_a_login_form(client, db):
    assert client.get("/slots/?live=1", headers=HTMX).status_code == 401


def test_cached_html_of_an_operator_is_not_shown_to_a_viewer(operator, viewer):
    slot = run(ask())
    assert "/actions/" in operator.get(f"/slots/{slot.name}/").text
    assert "/actions/" not in viewer.get(f"/slots/{slot.name}/").text


REFRESH = '<noscript><meta http-equiv="refresh"'


@pytest.mark.parametrize("page", ["/queue/", "/activity/?show=leases", "/activity/?show=parts"])
def test_without_javascript_a_page_reloads_by_itself(operator, page):
    assert REFRESH in operator.get(page).text


@pytest.mark.parametrize("page", ["/", "/slots/", "/bots/", "/deployments/", "/activity/"])
def test_without_javascript_a_page_with_a_form_does_not_reload(operator, page):
    shown = operator.get(f"{page}?q=7").text
    assert REFRESH not in shown
    assert f'<noscript><a href="{page}?q=7">Reload</a></noscript>' in shown


def test_the_overview_of_a_viewer_has_no_form_and_reloads(viewer):
    assert REFRESH in viewer.get("/").text


def test_without_javascript_the_api_page_links_to_other_documentation(client):
    page = client.get("/api/v1/docs").text
    [words] = re.findall("<noscript>(.*)</noscript>", page)
    assert 'href="/api/v1/openapi.json"' in words
    assert "docs/api.md" in words


# --- Content of the pages ----------------------------------------------------------------------


def test_it_shows_a_description_that_is_not_in_coolify_yet(viewer):
    bot = ask()
    run(bot)
    page = viewer.get("/slots/").text
    assert f"[BUSY] Bot #{bot.pk} - " in page
    assert ">not yet<" in page


def test_it_shows_that_the_description_in_coolify_is_up_to_date(viewer):
    Slot.objects.create(
        platform="zoom",
        number=1,
        name="pool-zoom-001",
        status="idle",
        description_written="[IDLE] Available",
    )
    assert "up to date</span>" in viewer.get("/slots/").text


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ("platform=google-meet", 6),
        ("platform=zoom", 0),
        ("status=error", 1),
        ("cordoned=yes", 0),
        ("q=meet-003", 1),
        ("container=IDLE", 6),
        ("status=nonsense", 0),
        ("sort=since", 6),
    ],
)
def test_slots_can_be_filtered_searched_and_sorted(viewer, filters, count):
    populate(6)
    assert viewer.get(f"/slots/?{filters}").text.count('<tr id="slot-') == count


@pytest.mark.parametrize("page", ["/slots/", "/bots/", "/deployments/", "/activity/"])
def test_a_search_for_a_nul_finds_nothing(viewer, page):
    run(ask())
    answer = viewer.get(f"{page}?q=%00")
    assert answer.status_code == 200
    assert "pool-google-meet-001" not in answer.text


def test_bots_can_be_found_by_number_correlation_id_and_name(viewer):
    bot, other = ask(display_name="Minutes of Monday"), ask()
    assert Bot.objects.count() == 2
    for words in (f"{bot.pk}", f"%23{bot.pk}", bot.correlation_id, "minutes of"):
        page = viewer.get(f"/bots/?q={words}").text
        assert f'id="bot-{bot.pk}"' in page, words
        assert f'id="bot-{other.pk}"' not in page, words


def test_secrets_of_a_bot_are_hidden(viewer):
    bot = ask(
        config={
            "language": "en",
            "apiKey": "sk-123",
            "deep": [{"password": "hush"}, "https://ann:secret@example.com/"],
        }
    )
    page = viewer.get(f"/bots/{bot.pk}/").text
    assert "language" in page
    for secret in ("sk-123", "hush", "ann:secret"):
        assert secret not in page


def test_names_from_clients_are_escaped(viewer):
    bot = ask(display_name="<script>alert(1)</script>")
    for page in ("/bots/", f"/bots/{bot.pk}/"):
        assert "<script>alert" not in viewer.get(page).text


def test_the_page_of_a_waiting_bot_shows_its_place_and_why(viewer, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(settings.MAX_POOL_SIZES, 0)
    ask()
    second = ask()
    page = viewer.get(f"/bots/{second.pk}/").text
    assert "2nd in the Google Meet queue" in page
    assert "1 bot is ahead of it." in page


def test_times_in_sentences_are_readable_and_the_rest_is_escaped():
    shown = readable("Heartbeat lost <b>: last heartbeat 2025-12-16T21:30:00Z")
    assert shown == (
        "Heartbeat lost &lt;b&gt;: last heartbeat "
        '<time datetime="2025-12-16T21:30:00Z" data-clock="">16 Dec 21:30:00 UTC</time>'
    )
    assert readable("It gives up at 2025-12-16T21:30:00Z") == (
        'It gives up <time datetime="2025-12-16T21:30:00Z" data-at="">at 16 Dec 21:30:00 UTC</time>'
    )
    assert readable("Away since 2025-12-16T21:30:00Z") == (
        'Away <time datetime="2025-12-16T21:30:00Z" data-for="">since 16 Dec 21:30:00 UTC</time>'
    )
    assert readable("On 2025-99-99T21:30:00Z") == "On 2025-99-99T21:30:00Z"


def test_a_pause_is_shown_until_it_is_over(viewer):
    in_an_hour, an_hour_ago = (database_now() + timedelta(hours=hours) for hours in (1, -1))
    pause_platform("zoom", reason="New image", actor="alice", until=in_an_hour)
    pause_platform("teams", reason="New image", actor="alice", until=an_hour_ago)
    shown = viewer.get("/").text
    assert "Zoom is paused by alice: New image" in shown
    assert shown.count('class="badge waiting">paused') == 1
    assert shown.count("is paused by") == 1


def test_the_end_of_a_pause_updates_an_open_page(viewer):
    now = database_now()
    Pool.objects.create(platform="zoom", paused_at=now, paused_until=now + timedelta(hours=1))
    version = shown_version(viewer.get("/").text)
    # In one transaction xmin stays the same, as if only time had passed.
    Pool.objects.update(paused_until=now)
    answer = ask_again(viewer, "/", version)
    assert answer.status_code == 200
    assert "is paused by" not in answer.text


def test_the_queue_shows_how_many_bots_timed_out(viewer, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(settings.MAX_POOL_SIZES, 0)
    time_passes(ask(), seconds=1000)
    sweep_queue()
    assert "<dt>Timed out, last hour</dt><dd>1 (100 %)</dd>" in viewer.get("/queue/").text


def test_samples_become_charts(viewer):
    populate(6)
    while time.time() % 60 > 50:  # both samples in the same minute
        time.sleep(0.1)
    sample_pools()
    sample_pools()
    sample = PoolSample.objects.get(platform="google-meet")
    assert (sample.busy, sample.deploying, sample.error) == (1, 1, 1)
    PoolSample.objects.update(minute=F("minute") - timedelta(minutes=1))
    sample_pools()
    assert "Slots, last hour. Latest: idle 2, deploying 1, busy 1" in viewer.get("/").text


def test_the_key_of_a_chart_does_not_contradict_the_live_count(viewer):
    PoolSample.objects.create(platform="zoom", minute=database_now(), waiting=25, wait_p50=3.0)
    page = viewer.get("/").text
    assert "bots 25</span>" not in page
    assert "Waiting, last hour. Latest: bots 25. Highest: 25." in page
    assert "p50 3 s</span>" in page


def test_a_lease_is_shown_under_the_name_of_its_slot(viewer):
    slot = SlotFactory()
    acquire_lease(f"slot:{slot.pk}", ttl=timedelta(minutes=5))
    acquire_lease("reconciler", ttl=timedelta(minutes=5))
    page = viewer.get("/activity/?show=leases").text
    link = f'<a href="/slots/{slot.name}/">{slot.name}</a>'
    assert f"{link} <small>slot:{slot.pk}</small>" in page
    assert '<td data-label="Lease"><code>reconciler</code></td>' in page


def found(slot_id, name, **fields):
    Finding.objects.create(
        kind="container_gone", subject=f"slot:{slot_id}", slot_id=slot_id, name=name, **fields
    )


def test_a_repair_that_has_started_is_not_called_repaired(viewer):
    now = database_now()
    found(7, "pool-zoom-007", outcome="Slot is being stopped", acted_at=now, ended_at=now)
    page = viewer.get("/activity/?show=repairs").text
    assert "acted on</span>" in page
    assert "repaired</span>" not in page


def test_a_repair_links_to_its_slot_if_that_exists(viewer):
    slot = SlotFactory()
    found(slot.pk, slot.name)
    found(slot.pk + 1, "pool-gone-001")
    page = viewer.get("/activity/?show=repairs").text
    assert f'<a href="/slots/{slot.name}/">{slot.name}</a>' in page
    assert "/slots/pool-gone-001/" not in page


def test_history_can_be_exported_as_csv(viewer):
    ask(display_name="x")
    answer = viewer.get("/activity/export/?show=bots")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].startswith("at,bot_id,from_status,to_status")
    assert len(lines) == 3


def test_csv_cells_are_never_formulas():
    assert _cell("=1+1") == "'=1+1"
    assert _cell(None) == ""


def test_the_container_log_says_why_there_is_none(viewer, settings):
    settings.COOLIFY_API_URL = "http://127.0.0.1:9/api/v1"
    slot = run(ask())
    assert "Coolify did not give the log" in viewer.get(f"/slots/{slot.name}/log/").text


def test_a_dry_run_changes_nothing(operator, settings):
    settings.COOLIFY_API_URL = "http://127.0.0.1:9/api/v1"
    slot = run(ask())
    page = operator.post("/activity/dry-run/")
    assert "Nothing was changed" in page.text
    assert Slot.objects.get(pk=slot.pk).status == "busy"


def test_a_dry_run_after_a_login_leads_to_its_button(operator):
    assert operator.get("/activity/dry-run/").url == "/activity/?show=repairs"


# --- Cheap while nothing changes ---------------------------------------------------------------


@pytest.fixture
def _remembered_for_long(monkeypatch):
    monkeypatch.setattr(unchanged, "SAME_FOR", 300)


@pytest.mark.usefixtures("_remembered_for_long")
def test_unchanged_pages_need_no_query(viewer, django_assert_num_queries):
    version = shown_version(viewer.get("/slots/").text)
    for _ in range(2):
        assert ask_again(viewer, "/slots/", version).status_code == 204
    with django_assert_num_queries(0):
        assert ask_again(viewer, "/slots/", version).status_code == 204


@pytest.mark.usefixtures("_remembered_for_long")
def test_the_short_cut_needs_a_login(viewer, client):
    version = shown_version(viewer.get("/slots/").text)
    for _ in range(3):
        ask_again(viewer, "/slots/", version)
    assert ask_again(client, "/slots/", version).status_code == 401


def test_an_unchanged_page_is_checked_again_soon(viewer):
    version = shown_version(viewer.get("/slots/").text)
    for _ in range(2):
        ask_again(viewer, "/slots/", version)
    ask()
    deadline = time.monotonic() + 30
    while ask_again(viewer, "/slots/", version).status_code == 204:
        assert time.monotonic() < deadline
        time.sleep(0.05)
