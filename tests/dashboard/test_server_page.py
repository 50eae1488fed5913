"""The servers page and its actions."""

import json
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db.models.functions import Now

from coolify.models import Budget
from dashboard.models import OperatorAction
from pool.servers.states import refresh_servers
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import PlatformImage, Prepull
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    refresh_servers()
    Server.objects.filter(uuid="a").update(name="bots-1")


def page(client) -> str:
    return client.get("/servers/").content.decode()


def post(client, action: str, *, seen: str = "", **data) -> str:
    fields = {"reason": "New disk", "targets": json.dumps([["a", seen]]), **data}
    answer = client.post(f"/actions/{action}/?item=a", fields, follow=True)
    return answer.content.decode()


def test_an_empty_list_says_what_to_set(operator, settings):
    settings.COOLIFY_SERVER_UUIDS = []
    assert "COOLIFY_SERVER_UUID" in page(operator)


def test_the_page_says_that_coolify_is_away(operator):
    assert "reported last" not in page(operator)
    away = {"open_since": Now(), "open_until": Now() + timedelta(minutes=1)}
    Budget.objects.update_or_create(pk=Budget.THE_ONE, defaults=away)
    cache.clear()  # of what is shown to all
    assert "reported last" in page(operator)


def test_the_page_shows_states_slots_and_reasons(operator):
    SlotFactory(server_uuid="a")
    Server.objects.filter(uuid="a").update(state="unreachable", state_reason="Coolify cannot")
    shown = page(operator)
    assert "bots-1" in shown and "Coolify cannot" in shown and "unreachable" in shown


def test_a_server_is_drained_and_returned_with_reason_and_audit(operator):
    assert "leave at once" in operator.get("/actions/drain-server/?item=a").content.decode()
    assert "done for 1 server" in post(operator, "drain-server", hours="2")
    server = Server.objects.get(uuid="a")
    assert (server.state, server.order_reason) == ("draining", "New disk")
    assert server.order_until is not None
    assert "Empty: it can be taken down." in page(operator)
    assert "done for 1 server" in post(operator, "return-server", seen="draining")
    assert Server.objects.get(uuid="a").state == "healthy"
    done = OperatorAction.objects.order_by("pk").values_list("action", "target", "done")
    assert list(done) == [("drain-server", "Server a", True), ("return-server", "Server a", True)]


def test_a_window_that_ends_before_it_begins_is_refused(operator):
    window = {"begins": "2040-01-02T00:00", "ends": "2040-01-01T00:00"}
    assert "must end after it begins" in post(operator, "maintenance", **window)
    assert Server.objects.get(uuid="a").window_from is None


@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [
        ("0001-01-01T00:00", "9999-12-31T23:59", "more than a year ago"),
        ("0001-01-01T00:00+14:00", "2040-01-01T00:00", "more than a year ago"),
        ("2040-01-01T00:00", "9999-12-31T23:59-14:00", "more than 20 years from now"),
        ("2020-01-01T00:00", "2020-01-02T00:00", "already over"),
    ],
)
def test_a_window_that_is_surely_a_mistake_is_shown_in_the_form(operator, begins, ends, words):
    fields = {"reason": "x", "targets": json.dumps([["a", ""]]), "begins": begins, "ends": ends}
    answer = operator.post("/actions/maintenance/?item=a", fields)
    assert (answer.status_code, words in answer.content.decode()) == (422, True)
    assert Server.objects.get(uuid="a").window_from is None
    assert operator.get("/servers/").status_code == 200


def test_a_window_is_planned_and_audited_in_utc(operator):
    window = {"begins": "2040-01-01T09:00+09:00", "ends": "2040-01-01T02:00"}
    assert "done for 1 server" in post(operator, "maintenance", **window)
    assert "begins: 2040-01-01 00:00:00+00:00" in OperatorAction.objects.get().outcome


def test_the_last_server_is_not_drained(operator):
    Server.objects.filter(uuid="b").update(state="unreachable")
    assert "last server in service" in post(operator, "drain-server")
    assert Server.objects.get(uuid="a").order == ""


def test_a_viewer_sees_no_buttons_and_may_not_order(viewer):
    assert "/actions/" not in page(viewer)
    assert viewer.post("/actions/drain-server/?item=a", {}).status_code == 403


def test_a_server_that_is_away_needs_attention(operator):
    Server.objects.filter(uuid="a").update(state="unreachable", state_reason="Coolify cannot")
    shown = operator.get("/").content.decode()
    assert "Server bots-1 is unreachable: Coolify cannot" in shown
    assert 'href="/actions/drain-server/?item=a' in shown


def test_an_image_is_marked_cold_with_reason_and_audit(operator):
    image = WarmImage.objects.create(image="bot:1.0", server_uuid="a")
    address = f"/actions/mark-cold/?item={image.pk}"
    assert "bot:1.0 on bots-1" in operator.get(address).content.decode()
    targets = json.dumps([[str(image.pk), "warm"]])
    operator.post(address, {"reason": "Pruned by hand", "targets": targets})
    image.refresh_from_db()
    assert image.state == "cold"
    assert "Pruned by hand" in page(operator)
    assert OperatorAction.objects.get().done


# --- Images and pre-pulls ----------------------------------------------------------------------

IMAGE = "registry.example/bot:2.0"


def test_an_image_is_warmed_with_reason_and_audit_and_shown(operator):
    assert "no bot needs" in operator.get("/actions/warm-image/?item=a").content.decode()
    assert "done for 1 server" in post(operator, "warm-image", image=IMAGE)
    prepull = Prepull.objects.get()
    assert (prepull.server_uuid, prepull.image, prepull.reason) == ("a", IMAGE, "New disk")
    done = OperatorAction.objects.get()
    assert (done.action, done.outcome) == ("warm-image", f"image: {IMAGE}")
    shown = page(operator)
    assert IMAGE in shown and "/actions/cancel-prepull/" in shown


def test_a_name_that_is_no_image_is_not_warmed(operator):
    assert "Give an image with its tag" in post(operator, "warm-image", image="Not an image")
    assert not Prepull.objects.exists()


def test_a_pre_pull_is_cancelled(operator):
    post(operator, "warm-image", image=IMAGE)
    number = str(Prepull.objects.get().pk)
    post(operator, "cancel-prepull", targets=json.dumps([[number, "waiting"]]))
    assert Prepull.objects.get().status == "cancelled"


def image_of_zoom(**fields) -> None:
    PlatformImage.objects.create(
        platform="zoom", image="bot:1.0", named="bot:2.0", named_at="2026-01-01T00:00Z", **fields
    )


def test_the_previous_image_is_restored_and_followed_again(operator):
    image_of_zoom(previous="bot:0.9")
    shown = {"targets": json.dumps([["zoom", "bot:1.0  settled"]])}
    assert "done for 1 platform" in post(operator, "restore-image", **shown)
    assert PlatformImage.objects.get().image == "bot:0.9"
    overview = operator.get("/").content.decode()
    assert "Zoom uses bot:0.9 instead of bot:2.0" in overview and "Follow again" in overview
    shown = {"targets": json.dumps([["zoom", "bot:0.9  restored"]])}
    assert "done for 1 platform" in post(operator, "follow-image", **shown)
    assert PlatformImage.objects.get().restored_at is None
    assert "it changed after you opened the page" in post(operator, "restore-image", **shown)


def test_an_image_that_could_not_be_pulled_needs_attention(operator):
    image_of_zoom(wanted="bot:2.0", wanted_since="2026-01-01T00:00Z")
    Prepull.objects.create(
        image="bot:2.0",
        server_uuid="a",
        status="failed",
        detail="There is no such tag",
        deadline="2026-01-01T00:00Z",
        ended_at="2026-01-01T00:00Z",
    )
    overview = operator.get("/").content.decode()
    assert "bot:2.0 could not be pulled. There is no such tag" in overview
    assert "/actions/warm-image/?item=a&amp;image=bot%3A2.0" in overview
    assert "pull failed" in page(operator)
