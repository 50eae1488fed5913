"""Operators' actions: asked first, done once, to what was shown, and written down."""

import json
import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs

import pytest
from django.conf import settings as django_settings

from bots.models import Bot
from bots.status import Platform
from core.leases import acquire_lease
from dashboard.actions.registry import ACTIONS
from dashboard.models import OperatorAction
from pool.capacity import current_pause
from pool.lifecycle import get_slot_for_bot
from queues.models import QueueEntry
from slots.models import Lease, Pool, Slot, SlotTransition
from tests.dashboard.populated import ask, fail, finish, run
from tests.factories import SlotFactory
from tests.invariants import broken_rules


def confirmed(client, address, **fields):
    """Go through the page that asks, as an operator does, and send its form."""
    page = client.get(address)
    assert page.status_code == 200
    form = {"targets": page.context["targets"], "reason": "Stuck", **fields}
    return client.post(address, form, follow=True)


def force_release(slot):
    return f"/actions/force-release/?item={slot.pk}"


def reread(row):
    return type(row).objects.get(pk=row.pk)


# --- Slots -------------------------------------------------------------------------------------


def test_it_says_what_force_release_will_do_to_which_bot_in_which_meeting(operator):
    bot = ask()
    page = operator.get(force_release(run(bot))).content.decode()
    assert f"Bot #{bot.pk} fails" in page
    assert bot.meeting_url in page
    assert "<b>1</b> slot will be changed" in page


def test_it_releases_a_slot_by_force(operator):
    bot = ask()
    slot = run(bot)
    confirmed(operator, force_release(slot))
    assert reread(slot).status == "stopping"
    assert reread(bot).failure_reason == "Released by operator: Stuck"
    assert broken_rules() == []


def test_an_action_is_in_the_audit_with_user_and_reason(operator):
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


def test_asking_alone_does_nothing(operator):
    slot = run(ask())
    operator.get(force_release(slot))
    assert reread(slot).status == "busy"


def test_the_next_bot_of_a_slot_is_safe_from_a_form_sent_twice(operator, settings):
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


def test_it_leaves_alone_what_it_does_not_fit(operator):
    idle, busy = SlotFactory(), run(ask(Platform.TEAMS))
    page = operator.get(f"/actions/force-release/?item={idle.pk}&item={busy.pk}")
    assert (page.context["count"], page.context["left_count"]) == (1, 1)


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


def test_it_stops_what_runs_in_an_idle_slot(operator):
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


def test_it_refuses_to_delete_a_slot_that_a_bot_holds(administrator):
    page = administrator.get(f"/actions/delete/?item={run(ask()).pk}")
    assert page.context["count"] == 0


def test_it_deletes_a_slot_that_was_never_made_in_coolify(administrator):
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


# --- Back to where one came from -----------------------------------------------------------------


def test_an_action_leads_back_to_the_filtered_list_it_was_chosen_on(operator):
    slot = run(ask())
    page = operator.get("/slots/?status=busy&sort=since").text
    assert '<input type="hidden" name="next" value="/slots/?status=busy&amp;sort=since">' in page
    answer = confirmed(operator, f"{force_release(slot)}&next=/slots/%3Fstatus%3Dbusy")
    assert answer.redirect_chain == [("/slots/?status=busy", 302)]


@pytest.mark.parametrize("page", ["/", "/queue/?platform=google-meet", "/bots/{bot}/"])
def test_every_link_to_an_action_knows_its_page(operator, waiters, page):
    page = page.format(bot=waiters[0].pk)
    links = re.findall(r'href="(/actions/[^"]*)"', operator.get(page).text)
    assert links
    for link in links:
        assert parse_qs(unescape(link))["next"] == [page]


def test_who_leaves_it_as_it_is_gets_back_to_the_slot(operator):
    slot = run(ask())
    page = operator.get(f"{force_release(slot)}&next=/slots/{slot.name}/").text
    assert f'href="/slots/{slot.name}/">Leave it as it is</a>' in page


def test_an_action_of_the_admin_leads_back_to_the_admin(administrator):
    slot = SlotFactory()
    chosen = {"action": "cordon", "_selected_action": slot.pk}
    lead = administrator.post("/admin/slots/slot/?status=idle", chosen)
    assert confirmed(administrator, lead.url).redirect_chain[0][0] == (
        "/admin/slots/slot/?status=idle"
    )


def test_a_slot_that_was_deleted_is_not_gone_back_to(administrator):
    slot = SlotFactory(coolify_uuid="")
    answer = confirmed(administrator, f"/actions/delete/?item={slot.pk}&next=/slots/{slot.name}/")
    assert answer.redirect_chain == [("/slots/", 302)]


def test_it_shows_at_once_why_nothing_can_be_done(operator):
    page = operator.get(force_release(SlotFactory())).text
    assert "Nothing to do: what was chosen cannot be changed" in page
    assert "<details open><summary>1 left alone" in page
    assert "it holds no bot (it is idle)" in page


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


def test_it_sends_a_new_bot(operator):
    form = {
        "meeting_url": "https://zoom.us/j/123456789",
        "display_name": "Minutes",
        "priority": "7",
    }
    operator.post("/bots/new/", form)
    bot = Bot.objects.get()
    assert (bot.platform, bot.priority, bot.display_name) == ("zoom", 7, "Minutes")


def test_it_says_what_is_wrong_with_a_new_bot(operator):
    form = {"meeting_url": "https://example.com/", "display_name": "Minutes", "priority": "7"}
    answer = operator.post("/bots/new/", form)
    assert answer.status_code == 422
    assert "No platform is known" in answer.content.decode()


def test_the_form_for_a_new_bot_has_a_page_to_come_to_after_a_login(operator):
    assert 'name="meeting_url"' in operator.get("/bots/new/").text


# --- The queue ---------------------------------------------------------------------------------


@pytest.fixture
def waiters(settings, db):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 0)
    return [ask(), ask(), ask()]


def in_line():
    return list(QueueEntry.objects.order_by("turn", "id").values_list("bot_id", flat=True))


def test_it_moves_a_waiter_up_and_down(operator, waiters):
    first, second, third = (bot.pk for bot in waiters)
    confirmed(operator, f"/actions/move-up/?item={third}")
    assert in_line() == [first, third, second]
    confirmed(operator, f"/actions/move-down/?item={first}")
    assert in_line() == [third, first, second]


@pytest.mark.parametrize(
    ("action", "place", "why"),
    [("move-up", 0, "nobody is ahead of it"), ("move-down", -1, "nobody is behind it")],
)
def test_it_says_why_a_waiter_cannot_move(operator, waiters, action, place, why):
    page = operator.get(f"/actions/{action}/?item={waiters[place].pk}")
    assert page.context["count"] == 0
    assert why in page.text


def test_the_queue_offers_only_moves_that_can_be_made(operator, waiters):
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


def test_a_size_of_one_is_said_without_a_wrong_plural(administrator, settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform.values, 1)
    page = administrator.get("/actions/resize/?item=google-meet").text
    assert "Its size is 1 now, and 0 of these exist." in page


# --- Work under way ----------------------------------------------------------------------------


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


def test_a_lease_is_broken_under_the_name_of_its_slot(administrator):
    slot = SlotFactory()
    acquire_lease(f"slot:{slot.pk}", ttl=timedelta(minutes=5))
    page = administrator.get(f"/actions/break-lease/?item=slot:{slot.pk}").text
    assert f'<a href="/slots/{slot.name}/">{slot.name} (slot:{slot.pk})</a>' in page


def test_there_is_no_action_of_another_name(operator):
    assert operator.get("/actions/explode/").status_code == 404


@pytest.mark.parametrize("name", sorted(ACTIONS))
@pytest.mark.parametrize("targets", ['[["nonsense", "nonsense"]]', '[["99999", "1"]]'])
def test_a_target_that_is_none_is_left_alone(administrator, name, targets):
    form = {"targets": targets, "reason": "Why not", "size": 1, "priority": 1}
    assert administrator.post(f"/actions/{name}/", form).status_code == 302
    assert not OperatorAction.objects.get().done


@pytest.mark.parametrize("targets", ["", "nonsense", "7", '["a"]', "{}"])
def test_a_list_of_targets_that_cannot_be_read_is_refused(operator, targets):
    form = {"targets": targets, "reason": "Why not"}
    answer = operator.post("/actions/force-release/", form)
    assert answer.status_code == 400 or not OperatorAction.objects.exists()


def test_the_audit_names_what_was_changed(operator):
    bot = ask()
    confirmed(operator, f"/actions/cancel-bot/?item={bot.pk}")
    assert OperatorAction.objects.get().target == str(bot)
