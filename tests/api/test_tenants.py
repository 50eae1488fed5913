"""A client sees its own bots only; operators see all."""

import pytest

from api.application import api
from api.keys import create_api_key, use_api_key
from bots.models import ApiKey, Bot, Client
from pool.controller.images import choose_leaders
from pool.line import move_up
from tests.api.conftest import MEETING, Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def other_api(db):
    return Api(create_api_key(name="other"))


@pytest.fixture
def bot(client_api, settings):
    """A bot of the client `app` that has a slot; a second one waits."""
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 1}
    ids = [client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"] for _ in range(2)]
    return Bot.objects.get(pk=ids[0])


def calls_of_clients(bot):
    """Every call that clients may make, about this bot where it names one."""
    for path, operations in api.get_openapi_schema()["paths"].items():
        for method, operation in operations.items():
            if "ClientKey" in [name for each in operation.get("security", []) for name in each]:
                yield method.upper(), path, path.replace("{id}", str(bot.pk))


def test_no_call_tells_another_client_of_a_bot(bot, other_api, operator_api):
    """New calls are included automatically."""
    checked = 0
    for method, route, path in calls_of_clients(bot):
        if (method, route) == ("POST", "/api/v1/bots"):
            continue
        answer = other_api.call(method, path)
        text = answer.content.decode()
        if "{id}" in route:
            assert answer.status_code == 404, path
            unreal = other_api.call(method, route.replace("{id}", "999999"))
            assert unreal.json()["detail"].replace("999999", str(bot.pk)) in text
        else:
            assert answer.status_code == 200, path
        told = (bot.meeting_url, bot.correlation_id, f'"botId": {bot.pk}', '"waiters": [{')
        assert not [each for each in told if each in text], path
        assert operator_api.call("GET", path).status_code in (200, 405), path
        checked += 1
    assert checked >= 8
    bot.refresh_from_db()
    assert bot.status == "DEPLOYING"  # not cancelled


def test_a_bot_that_waits_for_an_image_is_not_told_which_client_pulls_it(client_api, other_api):
    first, second = (
        api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
        for api in (client_api, other_api)
    )
    third = client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    choose_leaders()
    told = {
        bot: api.get(f"bots/{bot}").json()["waitingFor"]["message"]
        for api, bot in ((other_api, second), (client_api, third))
    }
    assert "once another bot has pulled" in told[second]
    assert f"once bot #{first} has pulled" in told[third]


def test_lists_are_those_of_the_client(bot, client_api, other_api, operator_api):
    for client, number in ((client_api, 2), (other_api, 0), (operator_api, 2)):
        assert len(client.get("bots").json()["bots"]) == number
    for client, number in ((client_api, 1), (other_api, 0), (operator_api, 1)):
        queue = client.get("queue").json()
        assert (len(queue["waiters"]), queue["total"]) == (number, number)
    for client, shown in ((client_api, bot.pk), (other_api, None), (operator_api, bot.pk)):
        assert [slot["botId"] for slot in client.get("slots").json()["slots"]] == [shown]


def test_positions_count_all_who_wait(bot, other_api):
    answer = other_api.post("bots", {"meetingUrl": MEETING, "priority": 1000}).json()
    (waiter,) = other_api.get("queue").json()["waiters"]
    assert waiter["queuePosition"] == answer["queuePosition"]


def test_idempotency_and_dedupe_keys_of_others_find_nothing(client_api, other_api):
    body = {"meetingUrl": MEETING, "dedupeKey": "standup"}
    first = client_api.post("bots", body, **{"Idempotency-Key": "a"}).json()["bot"]["id"]
    answer = other_api.post("bots", body, **{"Idempotency-Key": "a"})
    assert answer.status_code == 201
    assert answer.json()["bot"]["id"] != first


def test_keys_of_one_client_see_the_same_bots(bot):
    second = Api(create_api_key(name="app-2", client="app"))
    assert second.get(f"bots/{bot.pk}").status_code == 200
    assert not Client.objects.filter(name="app-2").exists()


def test_the_setting_lets_all_see_all(bot, other_api, settings):
    settings.TENANT_ISOLATION = False
    assert other_api.get(f"bots/{bot.pk}").status_code == 200
    assert len(other_api.get("bots").json()["bots"]) == 2
    assert other_api.post(f"bots/{bot.pk}/cancel").json()["status"] == "CANCELLED"


def test_an_event_does_not_name_the_bot_of_another_client(client_api, other_api, settings):
    settings.TENANT_ISOLATION = False  # all in one line
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 0}
    first = client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    later = other_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    assert move_up(Bot.objects.get(pk=later), reason="test", actor="test")
    settings.TENANT_ISOLATION = True
    reason = other_api.get(f"bots/{later}/events").json()["events"][-1]["reason"]
    assert "a bot of another client" in reason and str(first) not in reason


def test_a_key_of_the_version_before_gets_a_client_of_its_name(db):
    key = create_api_key(name="old")
    ApiKey.objects.update(client=None)
    assert use_api_key(key).client.name == "old"


def test_bots_of_no_client_are_for_operators(client_api, operator_api):
    bot_id = client_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    Bot.objects.update(client=None)
    assert client_api.get(f"bots/{bot_id}").status_code == 404
    assert operator_api.get(f"bots/{bot_id}").status_code == 200


@pytest.mark.parametrize(
    ("caller", "reason"),
    [("client_api", "Cancelled by the client"), ("operator_api", "Cancelled by an operator")],
)
def test_the_history_tells_whether_the_client_or_an_operator_cancelled(
    bot, request, caller, reason
):
    request.getfixturevalue(caller).post(f"bots/{bot.pk}/cancel")
    assert bot.events.latest("id").reason == reason


def test_an_operator_who_cancels_its_own_bot_is_its_client(operator_api):
    bot_id = operator_api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    operator_api.post(f"bots/{bot_id}/cancel")
    assert Bot.objects.get(pk=bot_id).events.latest("id").reason == "Cancelled by the client"
