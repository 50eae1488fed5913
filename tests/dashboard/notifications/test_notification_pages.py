"""The pages and actions of notifications."""

import re

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.core.cache import cache
from django.db.models.functions import Now
from django.test import Client

from dashboard.models import OperatorAction
from dashboard.notifications.evaluation import evaluate
from dashboard.notifications.records import (
    Condition,
    Message,
    NotificationChannel,
    NotificationRule,
)
from dashboard.notifications.sealing import unseal
from slots.models import Finding
from tests.dashboard.notifications.conftest import make_channel, make_rule

pytestmark = pytest.mark.django_db

URL = "https://app.example/hooks/s3cret"
RULE = {
    "name": "Night",
    "lasting": "5",
    "repeat": "4",
    "zone": "Europe/Berlin",
    "codes": ["lease_held"],
}
RULE |= {"quiet_from": "22:00", "quiet_until": "07:00"}


@pytest.fixture(autouse=True)
def _empty_cache():
    cache.clear()


def act(client, name, pk):
    page = client.get(f"/actions/{name}/?item={pk}&reason=Test").text
    targets = re.search(r'name="targets" value="([^"]*)"', page)[1].replace("&quot;", '"')
    answer = client.post(f"/actions/{name}/", {"targets": targets, "reason": "Test"})
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def test_without_a_channel_the_page_says_what_to_do(administrator, viewer):
    assert "Add one, and the rules below apply" in administrator.get("/notifications/").text
    assert "An administrator can add one." in viewer.get("/notifications/").text
    assert "Nothing was sent yet." in viewer.get("/notifications/log/").text


def test_an_administrator_adds_a_channel_whose_address_is_sealed(administrator):
    form = {"name": "Hook", "url": URL}
    page = administrator.post("/notifications/channels/new/", form, follow=True).text
    made = NotificationChannel.objects.get()
    assert unseal(made.sealed_url) == URL
    assert "s3cret" not in made.sealed_url + made.shown + page
    assert "whsec_" in page and "whsec_" not in administrator.get("/notifications/").text
    assert OperatorAction.objects.get().action == "new-channel"
    assert "s3cret" not in repr(list(OperatorAction.objects.values()))


def test_a_service_is_checked_with_apprise(administrator):
    new = "/notifications/channels/new/"
    wrong = administrator.post(new, {"name": "Slack", "url": "slack://x"})
    assert (wrong.status_code, "not complete" in wrong.text) == (422, True)
    right = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    administrator.post(new, {"name": "Slack", "url": right})
    assert NotificationChannel.objects.get().shown == "Slack"


@pytest.mark.parametrize(
    "url", ["dbus://", "http://10.0.0.1/", "slack://a/b/c?template=/etc/passwd"]
)
def test_a_wrong_address_is_refused_and_not_shown_again(administrator, url):
    answer = administrator.post("/notifications/channels/new/", {"name": "x", "url": url})
    assert answer.status_code == 422
    assert f'value="{url}"' not in answer.text
    assert not NotificationChannel.objects.exists()


def test_a_changed_channel_keeps_its_address_unless_a_new_one_is_given(administrator):
    channel = make_channel(URL)
    page = f"/notifications/channels/{channel.pk}/"
    assert "s3cret" not in administrator.get(page).text
    administrator.post(page, {"name": "renamed", "url": ""})
    channel.refresh_from_db()
    assert (channel.name, unseal(channel.sealed_url)) == ("renamed", URL)
    administrator.post(page, {"name": "renamed", "url": "https://other.example/x"})
    channel.refresh_from_db()
    assert channel.shown == "Webhook, other.example"


def test_two_channels_cannot_have_one_name(administrator):
    make_channel(URL, name="ops")
    answer = administrator.post("/notifications/channels/new/", {"name": "ops", "url": URL})
    assert "There is a channel with this name." in answer.text


@pytest.mark.parametrize("name", ["\u202eevil", "al\x07ice"])
def test_names_of_channels_and_rules_are_printable(administrator, name):
    channel = administrator.post("/notifications/channels/new/", {"name": name, "url": URL})
    rule = administrator.post("/notifications/rules/new/", {**RULE, "name": name})
    assert (channel.status_code, rule.status_code) == (422, 422)
    assert not NotificationChannel.objects.exists()


def test_the_test_button_really_sends_and_shows_the_result(operator, receiver):
    channel = make_channel(receiver.url)
    assert act(operator, "test-channel", channel.pk) == "Send test: done for 1 channel."
    assert "otto sent this test" in receiver.messages[0]["body"]
    receiver.status = 404
    told = act(operator, "test-channel", channel.pk)
    assert told.startswith("Send test: not done, because the test did not arrive: HTTP 404")
    assert "skipped" not in told and not told.endswith("(1).")
    log = operator.get("/notifications/log/").text
    assert "HTTP 404" in log and "Botpool: a test" in log
    assert [row.done for row in OperatorAction.objects.order_by("pk")] == [True, False]


def test_times_of_open_problems_are_readable(viewer):
    words = "Coolify: no answer since 2026-11-18T07:22:22Z"
    Condition.objects.create(
        code="coolify_away", words=words, link="/", first_seen_at=Now(), last_seen_at=Now()
    )
    page = viewer.get("/notifications/").text
    assert "no answer" in page
    assert "since 2026" not in page


def test_a_rule_without_any_channel_says_so(operator):
    assert "None yet." in operator.get("/notifications/rules/new/").text
    make_channel(URL)
    assert "None yet." not in operator.get("/notifications/rules/new/").text


def test_a_channel_is_disabled_enabled_and_deleted(administrator):
    channel = make_channel(URL)
    Message.objects.create(channel=channel, title="x", body="x")
    act(administrator, "disable-channel", channel.pk)
    assert ">disabled<" in administrator.get("/notifications/").text
    act(administrator, "enable-channel", channel.pk)
    assert NotificationChannel.objects.get().enabled
    act(administrator, "delete-channel", channel.pk)
    assert not NotificationChannel.objects.exists() and not Message.objects.exists()


def test_an_operator_makes_and_changes_a_rule(operator):
    NotificationRule.objects.all().delete()
    operator.post("/notifications/rules/new/", RULE)
    made = NotificationRule.objects.get()
    assert (str(made.lasting), str(made.repeat)) == ("0:05:00", "4:00:00")
    page = operator.get(f"/notifications/rules/{made.pk}/").text
    assert 'value="22:00"' in page and 'value="Europe/Berlin"' in page
    operator.post(f"/notifications/rules/{made.pk}/", {**RULE, "repeat": "", "lasting": "0"})
    made.refresh_from_db()
    assert (made.repeat, bool(made.lasting)) == (None, False)
    assert "22:00 to 07:00 Europe/Berlin" in operator.get("/notifications/").text
    assert OperatorAction.objects.latest("pk").outcome == "lasting, repeat"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"zone": "Mars/Base"}, "This zone is not known"),
        ({"quiet_until": ""}, "both a start and an end"),
        ({"quiet_until": "22:00"}, "cannot last all day"),
        ({"codes": ["nonsense"]}, "nonsense"),
        ({"lasting": "-1"}, "greater than or equal to 0"),
    ],
)
def test_a_wrong_rule_is_refused(operator, wrong, words):
    answer = operator.post("/notifications/rules/new/", {**RULE, **wrong})
    assert answer.status_code == 422 and words in answer.text


def test_a_rule_is_disabled_and_deleted(operator):
    rule = make_rule()
    act(operator, "disable-rule", rule.pk)
    assert not NotificationRule.objects.get().enabled
    act(operator, "enable-rule", rule.pk)
    act(operator, "delete-rule", rule.pk)
    assert not NotificationRule.objects.exists()


def test_what_is_open_is_shown_with_when_it_was_told(viewer):
    make_rule()
    Finding.objects.create(kind="too_many", subject="batch:zoom", reason="3 of 8")
    evaluate()
    assert "not told" in viewer.get("/notifications/").text
    make_channel(URL)
    evaluate()
    cache.clear()
    page = viewer.get("/notifications/#open").text
    assert "Repairs are held back. 3 of 8" in page and "<time" in page


def test_a_channel_that_fails_is_shown_on_the_overview(viewer):
    make_channel(URL, failing_since=Now(), failures=1, last_error="HTTP 500")
    assert "Notifications to ops fail: HTTP 500" in viewer.get("/").text


def test_viewers_change_nothing_and_operators_enter_no_addresses(viewer, operator):
    channel, rule = make_channel(URL), make_rule()
    forms = [f"/notifications/rules/{rule.pk}/", "/notifications/rules/new/"]
    secrets = [f"/notifications/channels/{channel.pk}/", "/notifications/channels/new/"]
    for page in (*forms, *secrets, "/actions/test-channel/", "/actions/delete-rule/"):
        assert viewer.get(page).status_code == viewer.post(page).status_code == 403, page
    for page in (*secrets, "/actions/delete-channel/"):
        assert operator.get(page).status_code == operator.post(page).status_code == 403, page
    assert "/actions/" not in viewer.get("/notifications/").text


def test_the_admin_shows_no_address():
    channel = make_channel(URL)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(f"/admin/botpool/notificationchannel/{channel.pk}/change/")
    assert page.status_code == 200
    assert channel.sealed_url not in page.text and "s3cret" not in page.text
