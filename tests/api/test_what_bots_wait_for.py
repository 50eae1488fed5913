"""What a bot object says about its wait."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import BotStatus
from pool.waiting.waiting_for import WaitingCode
from slots.models import Deployment
from tests.api.conftest import MEETING, Api
from tests.factories import DeploymentFactory, SlotFactory
from tests.queued import many_wait


def ask(api):
    return api.post("bots", {"meetingUrl": MEETING}).json()["bot"]


def waits_for_place(api):
    """Two bots that wait for a build place; the second of them."""
    SlotFactory.create_batch(2)
    ask(api)
    bot = ask(api)
    Deployment.objects.update(status="waiting_for_place")
    return bot["id"]


def test_a_queued_bot_waits_for_a_slot(client_api, full_pool):
    ask(client_api)
    waiting = ask(client_api)["waitingFor"]
    assert (waiting["code"], waiting["position"]) == ("slot", 2)
    assert waiting["message"].startswith("2nd in the Google Meet queue; the bot gives up at ")
    assert waiting["expectedAt"] is None
    assert set(waiting) == {"code", "message", "position", "expectedAt"}


def test_the_position_is_that_of_the_queue(client_api, full_pool):
    ask(client_api)
    bot = client_api.get(f"bots/{ask(client_api)['id']}").json()
    assert bot["waitingFor"]["position"] == bot["queuePosition"] == 2


def test_a_bot_that_deploys_says_what_it_waits_for(client_api):
    bot = client_api.get(f"bots/{waits_for_place(client_api)}").json()
    waiting = bot["waitingFor"]
    assert (bot["status"], waiting["code"], waiting["position"]) == ("DEPLOYING", "build_place", 2)
    assert waiting["message"].startswith("2nd of 2 for 2 build places on server-1, about ")
    assert datetime.fromisoformat(waiting["expectedAt"]) > datetime.now(UTC)


def test_a_new_bot_with_a_slot_is_about_to_start(client_api, slot):
    assert ask(client_api)["waitingFor"] == {
        "code": "start",
        "message": "The bot is about to be started.",
        "position": None,
        "expectedAt": None,
    }


def test_a_bot_that_runs_joins_its_call(client_api, assigned):
    assert client_api.get(f"bots/{assigned.bot.pk}").json()["waitingFor"]["code"] == "joining"


def test_a_bot_in_its_call_waits_for_nothing(client_api, assigned):
    assert move_bot(assigned.bot.pk, Outcome(BotStatus.IN_CALL, "Admitted", "test"))
    assert client_api.get(f"bots/{assigned.bot.pk}").json()["waitingFor"] is None
    assert client_api.get("bots").json()["bots"][0]["waitingFor"] is None


def test_a_cancelled_bot_waits_for_nothing(client_api, full_pool):
    bot = client_api.post(f"bots/{ask(client_api)['id']}/cancel").json()
    assert (bot["status"], bot["waitingFor"]) == ("CANCELLED", None)


def test_a_container_sees_that_its_bot_waits_for_nothing(assigned):
    answer = assigned.api.get(f"slots/{assigned.slot.coolify_uuid}/bot").json()
    assert answer["waitingFor"] is None


def test_a_repeated_request_says_what_the_bot_waits_for_now(client_api, slot):
    body, key = {"meetingUrl": MEETING}, {"Idempotency-Key": "order-1"}
    client_api.post("bots", body, **key)
    Deployment.objects.update(status="starting")
    again = client_api.post("bots", body, **key).json()["bot"]
    assert again["waitingFor"]["message"] == "Coolify is being asked to start the container."


def test_a_list_says_it_of_each_bot(client_api):
    second = waits_for_place(client_api)
    listed = client_api.get("bots").json()["bots"]
    told = {bot["id"]: bot["waitingFor"]["position"] for bot in listed}
    assert told == {second: 2, second - 1: 1}


@pytest.mark.parametrize("bots", [2, 30])
def test_a_list_of_any_length_costs_as_many_queries(
    operator_api, full_pool, bots, django_assert_num_queries
):
    many_wait(bots)
    for status in ("waiting_for_place", "starting", "in_progress"):
        for each in DeploymentFactory.create_batch(bots, status=status):
            Bot.objects.filter(pk=each.bot_id).update(status="DEPLOYING", previous_status="PENDING")
    # The key and the list; nine for what they wait for.
    with django_assert_num_queries(11):
        listed = operator_api.get("bots?limit=200").json()["bots"]
    assert sum(bot["waitingFor"] is not None for bot in listed) == 4 * bots


def test_the_description_lists_every_code(client_api):
    schemas = Api().get("openapi.json").json()["components"]["schemas"]
    assert schemas["WaitingCode"]["enum"] == WaitingCode.values
    assert set(schemas["WaitingFor"]["required"]) == {
        "code",
        "message",
        "position",
        "expectedAt",
    }
    for bot in ("Bot", "BotWithPlace"):
        assert "waitingFor" in schemas[bot]["required"]


def test_the_documentation_explains_every_code():
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    table = page.partition("### What a bot waits for")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)[1:] == WaitingCode.values
