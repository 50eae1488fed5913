"""The page of clients, and changing their limits."""

import re

import pytest

from api.keys import create_api_key
from bots.models import Bot, Client
from dashboard.models import OperatorAction

pytestmark = pytest.mark.django_db

NEW_BOT = {"meeting_url": "https://zoom.us/j/1", "display_name": "N", "priority": "100"}


@pytest.fixture
def acme():
    create_api_key(name="acme")
    return Client.objects.get()


def targets(client, acme):
    page = client.get(f"/actions/client-limits/?item={acme.pk}").text
    return re.search(r'name="targets" value="([^"]*)"', page)[1].replace("&quot;", '"')


def change(client, acme, **limits):
    form = {"targets": targets(client, acme), "reason": "Contract", **limits}
    return client.post("/actions/client-limits/", form)


def test_an_administrator_changes_limits_with_a_reason(administrator, acme):
    change(administrator, acme, max_bots="20", max_waiting="", share="3")
    acme.refresh_from_db()
    assert (acme.max_bots, acme.max_waiting, acme.share) == (20, None, 3)
    action = OperatorAction.objects.get()
    assert (action.action, action.reason) == ("client-limits", "Contract")
    assert "max_bots: 20" in action.outcome
    assert "0 of 20" in administrator.get("/clients/").text


@pytest.mark.parametrize("share", ["0", "101", "", "x"])
def test_an_invalid_share_is_refused(administrator, acme, share):
    assert change(administrator, acme, share=share).status_code == 422
    acme.refresh_from_db()
    assert acme.share == 1


def test_limits_that_changed_meanwhile_are_not_overwritten(administrator, acme):
    form = {"targets": targets(administrator, acme), "reason": "x", "share": "9"}
    Client.objects.update(max_bots=5)
    administrator.post("/actions/client-limits/", form)
    acme.refresh_from_db()
    assert (acme.max_bots, acme.share) == (5, 1)


def test_only_administrators_change_limits(operator, viewer, acme):
    for client in (operator, viewer):
        assert client.get("/clients/").status_code == 200
        assert client.get(f"/actions/client-limits/?item={acme.pk}").status_code == 403


def test_bots_of_the_dashboard_belong_to_the_operators_client(operator):
    operator.post("/bots/new/", NEW_BOT)
    assert Bot.objects.get().client.name == "Operators"


def test_a_limit_of_the_operators_client_is_told_in_the_form(operator):
    Client.objects.create(name="Operators", max_bots=0)
    answer = operator.post("/bots/new/", NEW_BOT)
    assert answer.status_code == 422 and "may have 0 at once" in answer.text


def test_a_key_made_in_the_admin_can_join_a_client(administrator, acme):
    form = {"name": "acme-2", "role": "client", "client": acme.pk, "webhook_url": ""}
    administrator.post("/admin/bots/apikey/add/", form)
    assert acme.keys.count() == 2
