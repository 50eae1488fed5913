"""One id runs through a bot's whole history, from its request until its slot is idle again."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from api.keys import create_api_key
from bots.models import Bot, BotEvent
from bots.moves import Outcome, move_bot
from bots.status import BotStatus, FailureCause
from coolify.client.errors import Unreachable
from core.correlation import correlated, current_bot, current_correlation_id
from core.leases import break_lease, holding_lease
from pool.assign import assign_bot_to_slot
from pool.lifecycle import handle_slot_error, mark_slot_running, recover_slot, release_bot_from_slot
from pool.reconciler.reconcile import reconcile
from pool.steering import cordon_slot
from slots.correlation import as_bot_of, as_bot_of_finding
from slots.deployment import Deployment
from slots.models import Finding, Slot, SlotTransition
from tests.api.conftest import MEETING, Api
from tests.controller import advance_one
from tests.factories import BotFactory, SlotFactory
from tests.log_lines import log_lines

pytestmark = pytest.mark.django_db(transaction=True)

ID = "order-4711"
# Observations are for all slots at once, and so for no bot.
OBSERVATIONS = ("/deployments", "/applications", "/version", "/servers")


@pytest.fixture
def api() -> Api:
    return Api(create_api_key(name="app"))


def ask_for_bot(api: Api, **simulate: Any) -> Bot:
    plan = {"plan": "normal", "meetingSeconds": 100_000, **simulate}
    body = {"meetingUrl": MEETING, "config": {"simulate": plan}}
    asked = api.post("bots", body, **{"X-Correlation-Id": ID}).json()
    return Bot.objects.get(pk=asked["bot"]["id"])


def assert_all_is_recorded_under_its_id(bot: Bot, lines: list[dict[str, Any]], pool) -> None:
    """Nothing else happens in this pool, so nothing may lack the id."""
    assert [line for line in lines if line.get("correlationId") != ID] == []
    assert [line for line in lines if line.get("bot") != bot.pk] == []
    for history in (BotEvent, SlotTransition):
        assert set(history.objects.values_list("correlation_id", flat=True)) == {ID}
    calls = [call for call in pool.control.requests()["recent"] if not is_observation(call)]
    assert calls
    assert [call for call in calls if call["correlationId"] != ID] == []


def is_observation(call: dict[str, Any]) -> bool:
    return call["method"] == "GET" and call["path"].endswith(OBSERVATIONS)


# --- On the simulated Coolify -----------------------------------------------------------------


@pytest.mark.slow
def test_of_a_bot_that_is_done(pool, api):
    with log_lines() as lines:
        bot = ask_for_bot(api, meetingSeconds=1)
        pool.until(lambda: pool.count([bot], BotStatus.DONE) and pool.all_idle())
    said = " ".join(line["message"] for line in lines)
    for words in ("Pulls the image", "Start accepted", "busy → stopping", "The container is gone"):
        assert words in said
    assert_all_is_recorded_under_its_id(bot, lines, pool)


@pytest.mark.slow
def test_of_a_bot_that_is_cancelled_by_a_call_with_an_id_of_its_own(pool, api):
    with log_lines() as lines:
        bot = ask_for_bot(api)
        pool.until(lambda: Deployment.objects.filter(status="in_progress").exists())
        api.post(f"bots/{bot.pk}/cancel", **{"X-Correlation-Id": "another"})
        pool.until(pool.all_idle)
    assert_all_is_recorded_under_its_id(bot, lines, pool)


@pytest.mark.slow
def test_of_a_bot_whose_deployments_fail(pool, api):
    pool.control.add_fault("pull_fails")
    with log_lines() as lines:
        bot = ask_for_bot(api)
        pool.until(lambda: pool.count([bot], BotStatus.FAILED))
        for slot in Slot.objects.filter(status="error"):
            recover_slot(slot, reason="Tried again", actor="test")
        pool.until(pool.all_idle)
    assert any("failed: " in line["message"] for line in lines)
    assert_all_is_recorded_under_its_id(bot, lines, pool)


# --- Step by step -----------------------------------------------------------------------------


def in_slot(bot: Bot) -> Slot:
    slot = assign_bot_to_slot(bot, reason="Bot requested", actor="test")
    mark_slot_running(slot, reason="Container runs", actor="test")
    slot.refresh_from_db()
    return slot


@pytest.fixture
def bot(db) -> Bot:
    SlotFactory()
    return BotFactory(correlation_id=ID)


def test_a_slot_is_idle_under_the_id_of_the_bot_that_left_it(bot):
    in_slot(BotFactory(correlation_id="the bot before"))
    release_bot_from_slot(Slot.objects.get(), Outcome(BotStatus.DONE, "Over", "test"))
    Slot.objects.update(status="idle", previous_status="stopping", coolify_uuid="")
    release_bot_from_slot(in_slot(bot), Outcome(BotStatus.DONE, "Over", "test"))
    with log_lines() as lines:
        advance_one(Slot.objects.get())
    entry = SlotTransition.objects.latest("id")
    assert (entry.to_status, entry.bot_id, entry.correlation_id) == ("idle", None, ID)
    assert [(line["to"], line["bot"], line["correlationId"]) for line in lines] == [
        ("idle", bot.pk, ID)
    ]


class UnreachableCoolify:
    def __getattr__(self, name):
        def call(*arguments, **more):
            raise Unreachable("no answer")

        return call


def test_a_stop_that_does_not_work_is_logged_under_its_id(bot, monkeypatch):
    monkeypatch.setattr("pool.controller.advance.shared_coolify", UnreachableCoolify)
    release_bot_from_slot(in_slot(bot), Outcome(BotStatus.DONE, "Over", "test"))
    with log_lines() as lines:
        advance_one(Slot.objects.get())
    assert ["is not stopped yet" in line["message"] for line in lines] == [True]
    assert (lines[0]["correlationId"], lines[0]["bot"]) == (ID, bot.pk)


def test_an_operators_change_of_a_held_slot_is_recorded_under_the_id_of_its_bot(bot):
    cordon_slot(in_slot(bot), reason="Looks odd", actor="test")
    assert SlotTransition.objects.latest("id").correlation_id == ID


def test_what_the_reconciler_does_is_logged_under_the_id_of_the_bot(bot):
    in_slot(bot)
    move_bot(bot.pk, Outcome(BotStatus.DONE, "Meeting over", "test"))
    with log_lines() as lines:
        reconcile()
    ours = [line for line in lines if line["message"].startswith(("[Reconciler]", "[Pool]"))]
    assert [(line["correlationId"], line["bot"]) for line in ours] == [(ID, bot.pk)] * 3


def test_a_finding_in_a_free_slot_belongs_to_the_bot_that_held_it_last(bot):
    slot = in_slot(bot)
    handle_slot_error(slot, "It broke", cause=FailureCause.CONTAINER_FAILED, actor="test")
    with as_bot_of_finding(Finding(kind="slot_in_error", slot=slot)):
        assert (current_correlation_id(), current_bot()) == (ID, bot.pk)


def test_work_for_a_bot_that_has_been_pruned_goes_on_without_an_id(bot):
    deployment = Deployment(bot_id=bot.pk + 1)
    with as_bot_of(deployment):
        assert current_correlation_id() == ""


def test_the_loss_of_a_lease_is_logged_under_the_id_of_its_work():
    lease = holding_lease("slot:1", ttl=timedelta(milliseconds=200))
    with log_lines() as lines, correlated(ID, bot=7), lease:
        break_lease("slot:1")
        wait_for(lambda: any("while its work went on" in line["message"] for line in lines))
    assert {(line["correlationId"], line["bot"]) for line in lines} == {(ID, 7)}


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
