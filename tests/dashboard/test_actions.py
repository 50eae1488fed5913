"""Operator actions: confirmed, done once, to the state that was shown, and audited."""

import json
import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs

import pytest
from django.conf import settings as django_settings
from django.db.models.functions import Now

from bots.models import Bot
from bots.status import Platform
from coolify.budget.access import fingerprint
from coolify.budget.report import budget_report
from coolify.models import Budget, Refusal
from core.clock import database_now
from core.leases import acquire_lease
from dashboard.actions.action import MOST_TARGETS
from dashboard.actions.registry import ACTIONS
from dashboard.models import OperatorAction
from pool.capacity import current_pause
from pool.lifecycle import get_slot_for_bot
from queues.models import QueueEntry
from slots.models import Finding, Lease, Pool, Slot, SlotTransition
from tests.dashboard.populated import ask, fail, finish, run
from tests.factories import BotFactory, SlotFactory
from tests.invariants import broken_rules


def confirmed(client, address, **fields):
    """Open the confirmation page and send its form."""
    page = client.get(address)
    assert page.status_code == 200
    form = {"targets": page.context["targets"], "reason": "Stuck", **fields}
    return client.post(address, form, follow=True)


def force_release(slot):
    return f"/actions/force-release/?item={slot.pk}"


def reread(row):
    return type(row).objects.get(pk=row.pk)


# --- Slots -------------------------------------------------------------------------------------


def test_the_confirmation_names_the_effect_the_bot_and_the_meeting(operator):
    bot = ask()
    page = operator.get(force_release(run(bot))).content.decode()
    assert f"Bot #{bot.pk} fails" in page
    assert bot.meeting_url in page
    assert "<b>1</b> slot will be changed" in page


def test_the_confirmation_asks_about_the_one_target_or_the_number_of_them(operator):
    first, second = run(ask()), run(ask())
    one = operator.get(force_release(first)).text
    assert f"<h1>Force release {first.name}?</h1>" in one
    both = operator.get(f"{force_release(first)}&item={second.pk}").text
    assert "<h1>Force release 2 slots?</h1>" in both


def test_it_force_releases_a_slot(operator):
    bot = ask()
    slot = run(bot)
    confirmed(operator, force_release(slot))
    assert reread(slot).status == "stopping"
    assert reread(bot).failure_reason == "Released by operator: Stuck"
    assert broken_rules() == []


def test_the_audit_has_user_and_reason(operator):
    slot = run(ask())
    confirmed(operator, force_release(slot))
    line = OperatorAction.objects.get()
    assert (line.username, line.action, line.target) == ("otto", "force-release", slot.name)
    assert (line.reason, line.done) == ("Stuck", True)
    assert SlotTransition.objects.filter(slot=slot, actor="user:otto").exists()


def test_it_does_nothing_without_a_reason(operator):
    slot = run(ask())
    answer = operator.post(
        force_release(slot), {"targets": json.dumps([[slot.name, str(slot.epoch)]]), "reason": " "}
    )
    assert answer.status_code == 422
    assert reread(slot).status == "busy"


def test_the_confirmation_page_changes_nothing(operator):
    slot = run(ask())
    operator.get(force_release(slot))
    assert reread(slot).status == "busy"


def test_a_late_form_does_not_touch_the_next_bot_of_a_slot(operator, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 1)
    first = ask()
    slot = run(first)
    shown = operator.get(force_release(slot)).context["targets"]
    finish(first)
    second = ask()
    assert get_slot_for_bot(second) == slot
    operator.post(force_release(slot), {"targets": shown, "reason": "Late"})
    assert get_slot_for_bot(second) == slot
    assert not OperatorAction.objects.get().done


def test_it_skips_targets_it_does_not_apply_to(operator):
    idle, busy = SlotFactory(), run(ask(Platform.TEAMS))
    page = operator.get(f"/actions/force-release/?item={idle.pk}&item={busy.pk}")
    assert (page.context["count"], page.context["skipped_count"]) == (1, 1)


def test_it_acts_on_all_that_match_the_filter(operator):
    google = [run(ask()) for _ in range(3)]
    teams = run(ask(Platform.TEAMS))
    confirmed(operator, "/actions/force-release/?all=slots&platform=google-meet&status=busy")
    assert {reread(slot).status for slot in google} == {"stopping"}
    assert reread(teams).status == "busy"


def test_it_stops_a_slot_and_cancels_its_bot(operator):
    bot = ask()
    slot = run(bot)
    confirmed(operator, f"/actions/stop/?item={slot.pk}")
    assert reread(bot).status == "CANCELLED"
    assert reread(slot).status == "stopping"


def test_it_stops_the_container_of_an_idle_slot(operator):
    slot = SlotFactory(container_status="RUNNING")
    confirmed(operator, f"/actions/stop/?item={slot.pk}")
    assert reread(slot).status == "stopping"


def test_it_recreates_a_slot(operator):
    bot = ask()
    slot = run(bot)
    confirmed(operator, f"/actions/recreate/?item={slot.pk}")
    assert reread(slot).recreate
    assert reread(bot).status == "FAILED"


def test_it_retries_a_slot_in_error(operator):
    bot = ask()
    slot = run(bot)
    fail(bot)
    confirmed(operator, f"/actions/retry/?item={slot.pk}")
    assert reread(slot).status == "stopping"


def test_a_cordoned_slot_gets_no_bot_until_it_is_uncordoned(operator, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 1)
    slot = SlotFactory()
    confirmed(operator, f"/actions/cordon/?item={slot.pk}")
    bot = ask()
    assert get_slot_for_bot(bot) is None
    confirmed(operator, f"/actions/uncordon/?item={slot.pk}")
    assert reread(slot).cordoned is False
    assert broken_rules() == []


def test_it_does_not_delete_a_slot_with_a_bot(administrator):
    page = administrator.get(f"/actions/delete/?item={run(ask()).pk}")
    assert page.context["count"] == 0


def test_it_deletes_a_slot_without_an_application(administrator):
    slot = SlotFactory(coolify_uuid="")
    confirmed(administrator, f"/actions/delete/?item={slot.pk}")
    assert not Slot.objects.filter(pk=slot.pk).exists()
    assert SlotTransition.objects.filter(slot_name=slot.name, reason__contains="Deleted").exists()


def test_a_slot_stays_when_coolify_does_not_delete_its_application(administrator, settings):
    settings.COOLIFY_API_URL = "http://127.0.0.1:9/api/v1"
    slot = SlotFactory()
    confirmed(administrator, f"/actions/delete/?item={slot.pk}")
    assert reread(slot).cordoned
    assert "Coolify did not delete" in OperatorAction.objects.get().outcome


def test_an_operator_may_not_delete_slots(operator):
    slot = SlotFactory(coolify_uuid="")
    assert operator.get(f"/actions/delete/?item={slot.pk}").status_code == 403


# --- Back to the page before -------------------------------------------------------------------


def test_an_action_returns_to_the_filtered_list(operator):
    slot = run(ask())
    page = operator.get("/slots/?status=busy&sort=since").text
    assert '<input type="hidden" name="next" value="/slots/?status=busy&amp;sort=since">' in page
    answer = confirmed(operator, f"{force_release(slot)}&next=/slots/%3Fstatus%3Dbusy")
    assert answer.redirect_chain == [("/slots/?status=busy", 302)]


@pytest.mark.parametrize("page", ["/", "/queue/?platform=google-meet", "/bots/{bot}/"])
def test_every_link_to_an_action_names_its_page(operator, waiters, page):
    page = page.format(bot=waiters[0].pk)
    links = re.findall(r'href="(/actions/[^"]*)"', operator.get(page).text)
    assert links
    for link in links:
        assert parse_qs(unescape(link))["next"] == [page]


def test_the_confirmation_page_links_back_to_the_slot(operator):
    slot = run(ask())
    page = operator.get(f"{force_release(slot)}&next=/slots/{slot.name}/").text
    assert f'href="/slots/{slot.name}/">Back</a>' in page


def test_an_action_in_the_admin_returns_to_the_admin(administrator):
    slot = SlotFactory()
    chosen = {"action": "cordon", "_selected_action": slot.pk}
    lead = administrator.post("/admin/slots/slot/?status=idle", chosen)
    assert confirmed(administrator, lead.url).redirect_chain[0][0] == (
        "/admin/slots/slot/?status=idle"
    )


def test_deleting_a_slot_does_not_return_to_its_page(administrator):
    slot = SlotFactory(coolify_uuid="")
    answer = confirmed(administrator, f"/actions/delete/?item={slot.pk}&next=/slots/{slot.name}/")
    assert answer.redirect_chain == [("/slots/", 302)]


def test_it_shows_why_the_action_does_not_apply(operator):
    page = operator.get(force_release(SlotFactory())).text
    assert "Nothing to do: this does not apply to the selected slot" in page
    assert "<details open><summary>1 skipped" in page
    assert "it has no bot (it is idle)" in page


def test_a_slot_beyond_the_size_is_not_uncordoned(operator):
    slot = SlotFactory(cordoned=True, beyond_size=True)
    page = operator.get(f"/actions/uncordon/?item={slot.pk}").text
    assert "beyond the pool&#x27;s size: change the size instead" in page
    form = {"targets": json.dumps([[slot.name, str(slot.epoch)]]), "reason": "Needed"}
    operator.post("/actions/uncordon/", form)
    assert reread(slot).cordoned
    assert "/actions/uncordon/" not in operator.get(f"/slots/{slot.name}/").text


# --- Bots --------------------------------------------------------------------------------------


def test_it_cancels_a_bot(operator):
    bot = ask()
    run(bot)
    confirmed(operator, f"/actions/cancel-bot/?item={bot.pk}")
    assert reread(bot).status == "CANCELLED"


def test_it_tries_a_bot_again_once(operator):
    bot = ask(config={"language": "en"})
    run(bot)
    finish(bot)
    page = operator.get(f"/actions/try-again/?item={bot.pk}")
    form = {"targets": page.context["targets"], "reason": "Host was late"}
    for _ in range(2):
        operator.post(f"/actions/try-again/?item={bot.pk}", form)
    again = Bot.objects.exclude(pk=bot.pk).get()
    assert (again.meeting_url, again.config) == (bot.meeting_url, bot.config)


def test_a_client_cannot_prevent_that_a_bot_is_tried_again(operator):
    bot = ask()
    run(bot)
    finish(bot)
    ask(correlation_id=f"again-{bot.pk}")
    confirmed(operator, f"/actions/try-again/?item={bot.pk}")
    assert Bot.objects.count() == 3


def test_it_sends_a_new_bot(operator):
    form = {
        "meeting_url": "https://zoom.us/j/123456789",
        "display_name": "Minutes",
        "priority": "7",
    }
    operator.post("/bots/new/", form)
    bot = Bot.objects.get()
    assert (bot.platform, bot.priority, bot.display_name) == ("zoom", 7, "Minutes")


def test_the_form_for_a_new_bot_shows_errors(operator):
    form = {"meeting_url": "https://example.com/", "display_name": "Minutes", "priority": "7"}
    answer = operator.post("/bots/new/", form)
    assert answer.status_code == 422
    assert "No platform is known" in answer.content.decode()


def test_the_form_for_a_new_bot_refuses_names_that_turn_the_direction(operator):
    form = {"meeting_url": "https://zoom.us/j/1", "display_name": "a\u202eb", "priority": 1}
    assert operator.post("/bots/new/", form).status_code == 422
    assert not Bot.objects.exists()


def test_the_form_for_a_new_bot_has_its_own_page(operator):
    assert 'name="meeting_url"' in operator.get("/bots/new/").text


# --- The queue ---------------------------------------------------------------------------------


@pytest.fixture
def waiters(settings, db):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 0)
    return [ask(), ask(), ask()]


def in_line():
    return list(QueueEntry.objects.order_by("turn", "id").values_list("bot_id", flat=True))


def test_it_moves_a_waiting_bot_up_and_down(operator, waiters):
    first, second, third = (bot.pk for bot in waiters)
    confirmed(operator, f"/actions/move-up/?item={third}")
    assert in_line() == [first, third, second]
    confirmed(operator, f"/actions/move-down/?item={first}")
    assert in_line() == [third, first, second]


@pytest.mark.parametrize(
    ("action", "place", "why"),
    [
        ("move-up", 0, "no bot of its client is ahead of it"),
        ("move-down", -1, "no bot of its client is behind it"),
    ],
)
def test_it_says_why_a_waiting_bot_cannot_move(operator, waiters, action, place, why):
    page = operator.get(f"/actions/{action}/?item={waiters[place].pk}")
    assert page.context["count"] == 0
    assert why in page.text


def test_the_queue_offers_only_possible_moves(operator, waiters):
    page = operator.get("/queue/").text
    first, second, third = (bot.pk for bot in waiters)
    offered = re.findall(r"/actions/(move-\w+)/\?item=(\d+)", page)
    assert offered == [
        ("move-down", str(first)),
        ("move-up", str(second)),
        ("move-down", str(second)),
        ("move-up", str(third)),
    ]


def test_it_changes_a_priority(operator, waiters):
    last = waiters[-1].pk
    confirmed(operator, f"/actions/priority/?item={last}", priority="0")
    assert in_line()[0] == last


def test_it_pauses_and_resumes_a_platform(operator, waiters):
    confirmed(operator, "/actions/pause/?item=google-meet", minutes="10")
    pause = current_pause("google-meet")
    assert (pause.paused_by, pause.pause_reason) == ("user:otto", "Stuck")
    confirmed(operator, "/actions/resume/?item=google-meet")
    assert current_pause("google-meet") is None


def test_it_changes_the_size_of_a_pool(administrator, waiters):
    confirmed(administrator, "/actions/resize/?item=google-meet", size="2")
    assert Pool.objects.get(platform="google-meet").max_size == 2
    assert django_settings.MAX_POOL_SIZES["google-meet"] == 0


def test_the_confirmation_of_a_resize_shows_the_current_size(administrator, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 1)
    page = administrator.get("/actions/resize/?item=google-meet").text
    assert "Maximum now: 1. Slots in the pool: 0." in page


def test_a_pool_returns_to_the_size_of_the_environment(administrator, waiters):
    confirmed(administrator, "/actions/resize/?item=google-meet", size="2")
    assert "/actions/reset-size/?item=google-meet" in administrator.get("/").text
    page = administrator.get("/actions/reset-size/?item=google-meet&item=zoom").text
    assert "Maximum now: 2, set by an operator. Then: 0, as MAX_POOL_SIZE says" in page
    assert "it already has the size of MAX_POOL_SIZE" in page
    confirmed(administrator, "/actions/reset-size/?item=google-meet")
    assert Pool.objects.get(platform="google-meet").max_size is None
    assert "/actions/reset-size/" not in administrator.get("/").text
    last = OperatorAction.objects.latest("pk")
    assert (last.action, last.target, last.reason) == ("reset-size", "google-meet", "Stuck")


def test_an_operator_who_is_no_administrator_does_not_change_the_size(operator):
    assert operator.get("/actions/reset-size/?item=google-meet").status_code == 403


# --- Calls to Coolify --------------------------------------------------------------------------


def hold_up(**fields):
    Budget.objects.update_or_create(pk=Budget.THE_ONE, defaults=fields)


def test_it_lifts_a_pause_of_the_calls(operator):
    hold_up(paused_until=Now() + timedelta(hours=1), pause_reason="Too Many Attempts.")
    slot = run(ask())
    Slot.objects.filter(pk=slot.pk).update(next_try_at=Now() + timedelta(hours=1))
    assert "/actions/lift-pause/" in operator.get("/activity/?show=parts").text
    confirmed(operator, "/actions/lift-pause/?item=pause&item=circuit")
    assert budget_report().paused_until is None
    assert reread(slot).next_try_at <= database_now()
    done = OperatorAction.objects.get()
    assert (done.target, done.done) == ("Calls to Coolify: pause", True)
    assert "/actions/lift-pause/" not in operator.get("/activity/?show=parts").text


def test_it_tries_access_again_that_coolify_refused(operator, settings):
    token = fingerprint(settings.COOLIFY_API_URL, settings.COOLIFY_API_TOKEN)
    Refusal.objects.create(token=token, ability="deploy", reason="It lacks the ability deploy.")
    slot = run(ask())
    Slot.objects.filter(pk=slot.pk).update(next_try_at=Now() + timedelta(hours=1))
    overview = operator.get("/").text
    assert "Coolify: refuses access: It lacks the ability deploy." in overview
    assert "/actions/try-access/" in overview
    confirmed(operator, "/actions/try-access/?item=try-access")
    assert not Refusal.objects.exists()
    assert reread(slot).next_try_at <= database_now()
    assert "/actions/try-access/" not in operator.get("/").text


def test_it_probes_a_coolify_whose_circuit_is_open(operator):
    hold_up(open_since=Now(), open_until=Now() + timedelta(minutes=1), failed_probes=7)
    assert budget_report().circuit == "open"
    confirmed(operator, "/actions/lift-pause/?item=circuit")
    assert budget_report().circuit == "probing"
    assert Budget.objects.get().failed_probes == 0


def test_a_pause_that_began_after_the_page_was_opened_is_not_lifted(operator):
    hold_up(paused_until=Now() + timedelta(hours=1))
    page = operator.get("/actions/lift-pause/?item=pause")
    hold_up(paused_until=Now() + timedelta(hours=2))
    form = {"targets": page.context["targets"], "reason": "Stuck"}
    operator.post("/actions/lift-pause/?item=pause", form)
    assert budget_report().paused_until is not None


def test_without_a_pause_there_is_nothing_to_lift(operator):
    page = operator.get("/actions/lift-pause/?item=pause&item=circuit")
    assert page.context["count"] == 0
    assert "calls are not paused" in page.text


# --- Deployments and leases --------------------------------------------------------------------


def test_it_cancels_a_deployment(operator):
    bot = ask()
    slot = get_slot_for_bot(bot)
    confirmed(operator, f"/actions/cancel-deployment/?item={slot.deployments.get().pk}")
    assert reread(bot).status == "CANCELLED"
    assert slot.deployments.get().status == "cancelled"


def test_it_breaks_a_lease(administrator):
    acquire_lease("slot:7", ttl=timedelta(minutes=5))
    confirmed(administrator, "/actions/break-lease/?item=slot:7")
    assert Lease.objects.get(key="slot:7").holder == ""


def test_the_confirmation_names_the_slot_of_a_lease(administrator):
    slot = SlotFactory()
    acquire_lease(f"slot:{slot.pk}", ttl=timedelta(minutes=5))
    page = administrator.get(f"/actions/break-lease/?item=slot:{slot.pk}").text
    assert f'<a href="/slots/{slot.name}/">{slot.name} (slot:{slot.pk})</a>' in page


def test_an_unknown_action_is_not_found(operator):
    assert operator.get("/actions/explode/").status_code == 404


@pytest.mark.parametrize("name", sorted(ACTIONS))
@pytest.mark.parametrize("targets", ['[["nonsense", "nonsense"]]', '[["99999", "1"]]'])
def test_an_unknown_target_is_skipped(administrator, name, targets):
    form = {"targets": targets, "reason": "Why not", "size": 1, "priority": 1, "share": 1}
    form |= {"begins": "2040-01-01T10:00", "ends": "2040-01-01T11:00", "image": "bot:1.0"}
    assert administrator.post(f"/actions/{name}/", form).status_code == 302
    assert not OperatorAction.objects.get().done


@pytest.mark.parametrize("targets", ["", "nonsense", "7", '["a"]', "{}"])
def test_malformed_targets_are_refused(operator, targets):
    form = {"targets": targets, "reason": "Why not"}
    answer = operator.post("/actions/force-release/", form)
    assert answer.status_code == 400 or not OperatorAction.objects.exists()


def test_more_targets_than_a_page_offers_are_refused(operator):
    targets = json.dumps([["pool-zoom-001", "1"]] * (MOST_TARGETS + 1))
    answer = operator.post("/actions/force-release/", {"targets": targets, "reason": "Stuck"})
    assert answer.status_code == 400
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize(("waiting", "is_told"), [(2, False), (3, True), (4, True)])
def test_an_operator_is_told_that_there_may_be_more_than_can_be_changed_at_once(
    operator, monkeypatch, waiting, is_told
):
    for module in ("action", "bots"):
        monkeypatch.setattr(f"dashboard.actions.{module}.MOST_TARGETS", 3)
    BotFactory.create_batch(waiting)
    page = operator.get("/actions/cancel-bot/?all=bots").text
    assert f"<b>{min(waiting, 3)}</b> bots will be changed" in page
    assert ("At most 3 bots can be changed at once" in page) == is_told


@pytest.mark.parametrize("name", ["cancel-bot", "force-release", "pause", "cordon-server"])
@pytest.mark.parametrize(
    "targets", ["[" * 50_000, r'[["a\u0000", "b"]]', r'[["\ud800", "b"]]', r'[["a", "\u0000"]]']
)
def test_targets_that_cannot_be_stored_are_refused_with_a_sentence(operator, name, targets):
    answer = operator.post(f"/actions/{name}/", {"targets": targets, "reason": "Why not"})
    assert answer.status_code == 400
    assert "cannot be read" in answer.text
    assert not OperatorAction.objects.exists()


def test_the_audit_names_the_target(operator):
    bot = ask()
    confirmed(operator, f"/actions/cancel-bot/?item={bot.pk}")
    assert OperatorAction.objects.get().target == str(bot)


# --- Repairs that are held back ---


def held_finding(slot, **fields):
    return Finding.objects.create(
        kind="heartbeat_lost",
        subject=f"slot:{slot.pk}",
        name=slot.name,
        epoch=slot.epoch,
        slot=slot,
        bot=slot.assigned_bot,
        platform=slot.platform,
        reason="Heartbeat lost",
        evidence={"lastHeartbeatAt": "2026-01-01T10:00:00Z"},
        decision="Fail the bot and release the slot",
        held_back="3 of 8 busy Zoom slots at once",
        **fields,
    )


def test_a_repair_that_is_held_back_is_approved_with_a_reason_and_audited(operator):
    findings = [held_finding(run(ask(Platform.ZOOM))) for _ in range(2)]
    page = operator.get("/activity/?show=repairs").content.decode()
    assert "Held back" in page
    assert "A bot has fallen silent · Zoom" in page

    confirmed(operator, f"/actions/approve-repair/?item={findings[0].pk}")

    first, second = (reread(each) for each in findings)
    assert (first.is_approved, first.approval_reason) == (True, "Stuck")
    assert not second.is_approved
    audited = OperatorAction.objects.get(action="approve-repair")
    assert (audited.target, audited.done) == (f"Finding {first.pk}", True)


def test_a_whole_batch_can_be_approved_and_no_other(operator):
    zoom = [held_finding(run(ask(Platform.ZOOM))) for _ in range(2)]
    teams = held_finding(run(ask(Platform.TEAMS)))
    batch = "/actions/approve-repair/?all=repairs&kind=heartbeat_lost&platform=zoom"

    confirmed(operator, batch)

    assert [reread(each).is_approved for each in (*zoom, teams)] == [True, True, False]


def test_a_repair_whose_evidence_changed_while_the_page_was_open_is_not_approved(operator):
    finding = held_finding(run(ask(Platform.ZOOM)))
    address = f"/actions/approve-repair/?item={finding.pk}"
    page = operator.get(address)
    Finding.objects.update(evidence={"lastHeartbeatAt": "2026-01-01T10:05:00Z"})

    operator.post(address, {"targets": page.context["targets"], "reason": "Stuck"})

    assert not reread(finding).is_approved
    assert not OperatorAction.objects.get(action="approve-repair").done
