"""Servers in the API, for operators."""

import pytest

from pool.servers.states import refresh_servers
from servers.models import Server
from slots.images import Prepull
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    refresh_servers()
    Server.objects.filter(uuid="a").update(name="bots-1")


def test_operators_see_servers_with_their_states(operator_api, client_api):
    SlotFactory(server_uuid="a")
    listed = operator_api.get("servers").json()["servers"]
    assert [(each["name"], each["state"]) for each in listed] == [
        ("bots-1", "healthy"),
        ("", "healthy"),
    ]
    assert (listed[0]["slots"]["idle"], listed[0]["order"], listed[0]["progress"]) == (
        1,
        None,
        None,
    )
    assert client_api.get("servers").status_code == 403


def test_operators_drain_and_return_a_server(operator_api):
    answer = operator_api.post(
        "servers/bots-1/drain", {"reason": "Disk", "until": "2040-01-01T00:00:00Z"}
    )
    assert (answer.status_code, answer.json()["state"]) == (200, "draining")
    assert answer.json()["order"]["until"] == "2040-01-01T00:00:00Z"
    assert answer.json()["progress"] == "Empty: it can be taken down."
    back = operator_api.post("servers/a/return", {"reason": "Done"})
    assert (back.json()["state"], back.json()["order"]) == ("healthy", None)


def test_operators_cordon_and_plan_maintenance(operator_api):
    assert operator_api.post("servers/a/cordon", {"reason": "x"}).json()["state"] == "cordoned"
    window = {"reason": "x", "begins": "2040-01-01T00:00:00Z", "ends": "2040-01-01T02:00:00Z"}
    planned = operator_api.post("servers/a/maintenance", window).json()["maintenance"]
    assert planned["ends"] == "2040-01-01T02:00:00Z"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("servers/nothing/drain", {"reason": "x"}, 404),
        ("servers/%00/drain", {"reason": "x"}, 422),
        ("servers/a%00/return", {"reason": "x"}, 422),
        ("servers/a/drain", {}, 422),
        ("servers/a/drain", {"reason": "x", "until": "2020-01-01T00:00:00Z"}, 409),
        ("servers/a/drain", {"reason": "x", "until": "2040-01-01T00:00:00"}, 422),
        (
            "servers/a/maintenance",
            {"reason": "x", "begins": "2040-01-02T00:00:00Z", "ends": "2040-01-01T00:00:00Z"},
            409,
        ),
    ],
)
def test_bad_orders_are_refused_and_change_nothing(operator_api, path, body, status):
    answer = operator_api.post(path, body)
    assert (answer.status_code, Server.objects.get(uuid="a").order) == (status, "")
    assert Server.objects.get(uuid="a").window_from is None


EARLIEST, LATEST = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:00-14:00"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("servers/a/drain", {"until": LATEST}, "until"),
        ("servers/a/cordon", {"until": LATEST}, "until"),
        ("servers/a/maintenance", {"begins": EARLIEST, "ends": LATEST}, "begins"),
        ("servers/a/maintenance", {"begins": "2040-01-01T00:00:00Z", "ends": LATEST}, "ends"),
    ],
)
def test_a_time_at_the_edge_of_the_calendar_is_refused(operator_api, path, body, field):
    answer = operator_api.post(path, {"reason": "x", **body})
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]
    assert operator_api.get("servers").status_code == 200
    assert not Server.objects.exclude(order="", window_from=None).exists()


def test_the_last_server_cannot_be_drained(operator_api):
    operator_api.post("servers/b/drain", {"reason": "x"})
    answer = operator_api.post("servers/a/drain", {"reason": "x"})
    assert answer.status_code == 409
    assert "last server in service" in answer.json()["detail"]


def test_operators_have_an_image_pulled_beforehand(operator_api):
    order = {"reason": "New release", "image": "registry.example/bot:1.4"}
    answer = operator_api.post("servers/bots-1/warm", order)
    assert answer.status_code == 200
    [prepull] = answer.json()["prepulls"]
    assert (prepull["image"], prepull["status"]) == ("registry.example/bot:1.4", "waiting")
    wrong = operator_api.post("servers/bots-1/warm", {"reason": "x", "image": "Not an image"})
    assert wrong.status_code == 409 and "Nothing was changed" in wrong.json()["detail"]
    assert operator_api.post("servers/none/warm", order).status_code == 404
    assert Prepull.objects.count() == 1


@pytest.mark.parametrize("until", [1900000000, "1900000000", "-1900000000", 1900000000000, 2.5e9])
def test_a_time_has_to_be_written_out(operator_api, until):
    answer = operator_api.post("servers/a/drain", {"reason": "x", "until": until})
    assert answer.status_code == 422
    assert answer.json()["errors"] == {
        "until": ["Must be a time with its zone, as 2030-11-20T06:00:00Z."]
    }
    assert Server.objects.get(uuid="a").order == ""


@pytest.mark.parametrize("reason", ["", "  ", "a\nb", "\x1b[31mred", "\u202egnp.exe"])
@pytest.mark.parametrize("path", ["servers/a/drain", "servers/a/return", "slots/none/release"])
def test_a_reason_can_be_read(operator_api, path, reason):
    answer = operator_api.post(path, {"reason": reason})
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == ["reason"]
