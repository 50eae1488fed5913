"""The Django admin: every model is listed, and almost all are read-only."""

import re
from datetime import UTC, datetime

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from api.keys import use_api_key
from bots.models import ApiKey, Bot, BotEvent
from dashboard.roles import OUR_APPS
from queues.models import QueueEntry
from servers.models import Server
from slots.models import Deployment, Slot, SlotTransition
from tests.dashboard.conftest import logged_in, make_user
from tests.dashboard.populated import ask, populate, run
from tests.factories import BotFactory, SlotFactory

MODELS = [model for app in OUR_APPS for model in apps.get_app_config(app).get_models()]


def list_of(model):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_is_registered(model):
    assert list_of(model).startswith("/admin/")


def test_every_list_opens_and_can_be_searched(administrator):
    populate(6)
    for model in MODELS:
        assert administrator.get(list_of(model)).status_code == 200, model
        assert administrator.get(list_of(model) + "?q=7").status_code == 200, model


def test_rows_can_be_viewed_and_not_changed(administrator):
    populate(6)
    for model in MODELS:
        row = model._default_manager.first()
        if row is None or model is ApiKey:
            continue
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
        address = reverse(name, args=[row.pk])
        assert administrator.get(address).status_code == 200, model
        assert administrator.post(address, {}).status_code == 403, model


def test_force_release_leads_to_the_confirmation(administrator):
    slot = run(ask())
    answer = administrator.post(
        "/admin/slots/slot/", {"action": "force_release", "_selected_action": [slot.pk]}
    )
    back = "next=%2Fadmin%2Fslots%2Fslot%2F"
    assert answer["Location"] == f"/actions/force-release/?item={slot.pk}&{back}"


def many_bots(number):
    """Their numbers are far apart, as after long use."""
    shown = BotFactory.build(display_name="Notetaker")
    row = {"client_id": shown.client_id, "platform": shown.platform}
    row |= {"meeting_url": shown.meeting_url, "queue_timeout": shown.queue_timeout}
    Bot.objects.bulk_create(
        Bot(pk=1_000_003 * n, correlation_id=f"c{n}", **row) for n in range(1, number + 1)
    )


def choose_all(client, address="/admin/bots/bot/", action="cancel_bot"):
    form = {"action": action, "select_across": "1", "_selected_action": ["1"]}
    return client.post(address, form)


def test_all_rows_of_a_long_list_can_be_chosen(administrator):
    many_bots(1_000)
    address = choose_all(administrator)["Location"]
    assert len(address) < 2_500  # the web server accepts a first line of 4,094
    assert "<h1>Cancel 1000 bots?</h1>" in administrator.get(address).text
    refused = administrator.post(address, {"targets": "[]", "reason": ""})
    assert "<h1>Cancel 1000 bots?</h1>" in refused.text


def test_all_of_a_long_queue_can_be_chosen(administrator):
    many_bots(400)
    QueueEntry.objects.bulk_create(
        QueueEntry(bot=bot, platform=bot.platform, queued_at=Now(), timeout_at=Now())
        for bot in Bot.objects.all()
    )
    address = choose_all(administrator, list_of(QueueEntry))["Location"]
    assert "<h1>Cancel 400 bots?</h1>" in administrator.get(address).text


def test_a_long_selection_is_forgotten_once_it_is_done(administrator):
    many_bots(400)
    address = choose_all(administrator)["Location"]
    administrator.post(address, {"targets": "[]", "reason": "Test"})
    assert administrator.session["selections"] == []
    page = administrator.get(address, follow=True)
    assert "The selection is no longer kept. Select again." in page.text
    assert page.redirect_chain == [("/admin/bots/bot/", 302)]


def test_several_long_selections_can_be_open_at_once(administrator):
    many_bots(400)
    first, second, third, fourth = (choose_all(administrator)["Location"] for _ in range(4))
    assert administrator.get(first).status_code == 302
    for address in (second, third, fourth):
        assert "<h1>Cancel 400 bots?</h1>" in administrator.get(address).text


def test_a_long_selection_is_for_its_own_session(administrator, operator):
    many_bots(400)
    assert operator.get(choose_all(administrator)["Location"]).status_code == 302


def test_more_rows_than_can_be_chosen_are_refused_with_a_message(administrator):
    many_bots(1_001)
    answer = choose_all(administrator)
    assert answer["Location"] == "/admin/bots/bot/"
    page = administrator.get(answer["Location"]).text
    assert "Select at most 1,000 bots at once." in page


def test_a_long_search_is_not_passed_on_as_the_way_back(administrator):
    bot = BotFactory()
    address = f"/admin/bots/bot/?q={'%C3%A4' * 400}"
    form = {"action": "cancel_bot", "select_across": "0", "_selected_action": [bot.pk]}
    assert len(administrator.post(address, form)["Location"]) < 2_500


@pytest.mark.parametrize(
    "action", ["cordon_server", "drain_server", "maintenance", "return_server", "warm_image"]
)
def test_orders_for_a_server_lead_to_their_confirmation(administrator, settings, action):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    for uuid in settings.COOLIFY_SERVER_UUIDS:
        Server.objects.create(uuid=uuid, name=f"bots-{uuid}", order="cordoned")
    answer = administrator.post(list_of(Server), {"action": action, "_selected_action": ["a"]})
    page = administrator.get(answer["Location"])
    assert (page.status_code, "bots-a" in page.text) == (200, True)


def test_a_viewer_is_offered_no_action_in_the_admin(db):
    client = logged_in(make_user("vera", "viewer", is_staff=True))
    slot = run(ask())
    assert "force_release" not in client.get("/admin/slots/slot/").content.decode()
    answer = client.post(
        "/admin/slots/slot/", {"action": "force_release", "_selected_action": [slot.pk]}
    )
    assert "Location" not in answer or "/actions/" not in answer["Location"]


def test_an_api_key_is_shown_once(administrator):
    form = {"name": "billing", "role": "client", "webhook_url": ""}
    page = administrator.post("/admin/bots/apikey/add/", form, follow=True)
    shown = next(str(message) for message in page.context["messages"] if "once" in str(message))
    assert use_api_key(shown.split()[-1]).name == "billing"
    key = ApiKey.objects.get()
    assert key.key_hash not in administrator.get(f"/admin/bots/apikey/{key.pk}/change/").text


def test_the_name_of_a_key_in_use_is_refused(administrator):
    form = {"name": "billing", "role": "client", "webhook_url": ""}
    administrator.post("/admin/bots/apikey/add/", form)
    again = administrator.post("/admin/bots/apikey/add/", form)
    assert "in use" in again.text
    assert ApiKey.objects.count() == 1


def test_a_key_can_be_revoked(administrator):
    administrator.post("/admin/bots/apikey/add/", {"name": "billing", "role": "client"})
    key = ApiKey.objects.get()
    administrator.post("/admin/bots/apikey/", {"action": "revoke", "_selected_action": [key.pk]})
    assert ApiKey.objects.get().revoked_at is not None


def test_an_administrator_cannot_make_a_superuser(administrator):
    vera = make_user("vera", "viewer")
    form = {"username": "vera", "is_active": "on", "is_superuser": "on", "is_staff": "on"}
    form |= {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    administrator.post(f"/admin/auth/user/{vera.pk}/change/", form)
    vera = User.objects.get(pk=vera.pk)
    assert (vera.is_staff, vera.is_superuser) == (True, False)


def test_an_administrator_cannot_touch_a_superuser(administrator):
    root = User.objects.create_superuser("root")
    assert administrator.get(f"/admin/auth/user/{root.pk}/change/").status_code == 302
    administrator.post(f"/admin/auth/user/{root.pk}/delete/", {"post": "yes"})
    assert User.objects.filter(pk=root.pk).exists()


def test_the_admin_uses_the_login_of_the_dashboard(client, db):
    answer = client.get("/admin/login/?next=/admin/")
    assert answer["Location"] == "/login/?next=/admin/"


def test_the_index_leaves_out_internal_tables(administrator):
    page = administrator.get("/admin/").text
    assert all(
        f">{name}</a>" in page for name in ("Users", "API keys", "Slots", "Operator actions")
    )
    assert not any(name in page for name in ("Tall", "Request names", "Watch", "Call counts"))


def test_every_entry_of_the_index_is_a_registered_model():
    named = {label for _, labels in admin.site.sections for label in labels}
    assert named <= {model._meta.label for model in admin.site._registry}


def test_the_page_of_an_app_is_the_index(administrator):
    assert administrator.get("/admin/slots/")["Location"] == "/admin/"


def test_a_healthy_slot_is_in_service_and_has_no_cross(administrator):
    SlotFactory()
    page = administrator.get("/admin/slots/slot/").text
    assert '<span class="badge idle">idle</span>' in page
    assert '<td class="field-in_service">yes</td>' in page
    assert "icon-no" not in page


@pytest.mark.parametrize("flag", ["cordoned", "quarantined"])
def test_a_slot_out_of_service_says_why(administrator, flag):
    SlotFactory(cordoned=True, quarantined=flag == "quarantined")
    assert (
        f'<span class="badge {flag}">{flag}</span>' in administrator.get("/admin/slots/slot/").text
    )


def test_a_container_seen_before_the_slots_bot_is_not_shown(administrator):
    run(ask())
    assert "not observed yet" in administrator.get(list_of(Slot)).text


def test_times_have_24_hours_seconds_and_the_zone(administrator):
    slot = SlotFactory()
    Slot.objects.filter(pk=slot.pk).update(status_since=datetime(2026, 1, 2, 21, 3, 4, tzinfo=UTC))
    assert "2026-01-02 21:03:04 UTC" in administrator.get("/admin/slots/slot/").text


def test_a_page_of_the_admin_has_the_header_of_the_dashboard(administrator):
    page = administrator.get("/admin/slots/slot/").text
    assert '<header class="top">' in page
    assert 'href="/maintenance/"' in page


def test_a_new_key_has_no_raw_objects_in_its_form(administrator):
    assert "object at 0x" not in administrator.get("/admin/bots/apikey/add/").text


def test_the_page_of_a_slot_is_one_click_away(administrator):
    slot = SlotFactory()
    page = administrator.get(f"/admin/slots/slot/{slot.pk}/change/").text
    assert f'href="/slots/{slot.name}/"' in page


def test_the_list_of_users_shows_their_roles(administrator):
    make_user("vera", "viewer")
    assert '<td class="field-roles">viewer</td>' in administrator.get("/admin/auth/user/").text


def test_deleting_lists_no_rows_that_only_link_others(admin_client):
    group = Group.objects.get(name="viewer")
    vera = make_user("vera", "viewer")
    for address in (f"auth/group/{group.pk}", f"auth/user/{vera.pk}"):
        page = admin_client.get(f"/admin/{address}/delete/").text
        assert "Are you sure" in page
        assert "object (" not in page and "relationship" not in page
    form = {"action": "delete_selected", "_selected_action": [group.pk]}
    assert "object (" not in admin_client.post("/admin/auth/group/", form).text


def test_durations_have_a_unit(administrator):
    run(ask())
    page = administrator.get(list_of(SlotTransition)).text
    assert re.search(r">\d+\.\d s</td>", page)
    assert "0:00:0" not in page


def test_history_is_filtered_by_the_new_status(administrator):
    run(ask())
    address = list_of(SlotTransition)
    [line] = administrator.get(f"{address}?to_status=busy").context["cl"].result_list
    assert line.to_status == "busy"
    assert "Stopping" in administrator.get(address).text  # offered, although no row has it


@pytest.mark.parametrize("model", [BotEvent, SlotTransition, Deployment, Bot])
def test_filters_do_not_read_the_whole_history(administrator, model):
    with CaptureQueriesContext(connection) as captured:
        administrator.get(list_of(model))
    assert [each["sql"] for each in captured if "DISTINCT" in each["sql"]] == []
