"""Descriptions in Coolify's own list, and the build places of its servers."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from bots.moves import Outcome
from bots.status import BotStatus
from coolify.client.calls import CallClass
from coolify.client.errors import BudgetExhausted
from coolify.shared import shared_coolify
from pool.controller.servers import read_servers
from pool.lifecycle import end_bot
from servers.limits import concurrent_deployments
from servers.models import Server
from slots.models import Slot
from tests.controller import advance_one

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def shown(slot):
    return shared_coolify().application(slot.coolify_uuid).description


def running_slot(pool) -> Slot:
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    return Slot.objects.get()


@pytest.mark.parametrize("pool", [{"concurrent_builds": 5}], indirect=True)
def test_the_build_places_of_each_server_are_read_and_outlive_an_outage(pool, settings):
    settings.MAX_CONCURRENT_DEPLOYMENTS = 0
    read_servers()
    pool.control.answer_with(500, path="/servers$")
    read_servers()
    (server,) = settings.COOLIFY_SERVER_UUIDS
    assert concurrent_deployments([server]) == {server: 5}
    assert Server.objects.get().is_reachable


def test_a_state_is_written_once_it_has_settled(pool, settings):
    settings.DESCRIPTION_SETTLED_AFTER = timedelta(minutes=1)
    slot = running_slot(pool)
    again = advance_one(slot)
    assert timedelta(seconds=30) < again <= timedelta(minutes=1)
    assert shown(slot).startswith("[DEPLOYING]")

    settings.DESCRIPTION_SETTLED_AFTER = timedelta()
    assert advance_one(slot) is None
    assert shown(slot).startswith(f"[BUSY] Bot #{slot.assigned_bot_id} - ")


def test_a_state_that_is_shown_already_costs_no_call(pool, settings):
    settings.DESCRIPTION_SETTLED_AFTER = timedelta()
    slot = running_slot(pool)
    advance_one(slot)
    pool.control.answer_with(500, method="PATCH", path="/applications/")
    advance_one(slot)
    assert pool.control.faults()[0]["hits"] == 0


def test_an_idle_slot_shows_when_its_last_bot_left_it(pool, settings):
    settings.DESCRIPTION_SETTLED_AFTER = timedelta()
    slot = running_slot(pool)
    end_bot(slot.assigned_bot, Outcome(BotStatus.DONE, "Over", "test"))
    pool.until(pool.all_idle)
    advance_one(slot)
    slot.refresh_from_db()
    assert slot.last_used_at == slot.last_released_at
    assert shown(slot) == f"[IDLE] Available - Last used: {slot.last_used_at:%Y-%m-%dT%H:%M:%SZ}"


def test_a_text_that_coolify_did_not_take_is_tried_again_soon(pool, settings):
    settings.DESCRIPTION_SETTLED_AFTER = timedelta()
    slot = running_slot(pool)
    Slot.objects.update(description_written="")  # it may have been written in the meantime
    pool.control.answer_with(500, method="PATCH", path="/applications/")
    assert advance_one(slot) == timedelta(seconds=5)


class ClassesOfCalls:
    """A Coolify whose budget is spent; records for which class it was asked."""

    def __init__(self):
        self.overdue = []

    def update_application(self, uuid, *, description, overdue):
        self.overdue.append(overdue)
        raise BudgetExhausted("spent", retry_after=7.0, reason="limit")


@pytest.mark.parametrize(("age", "overdue"), [(30, False), (90, True)])
def test_a_text_that_was_wrong_for_a_minute_is_not_put_off(pool, monkeypatch, age, overdue):
    slot = running_slot(pool)
    Slot.objects.update(status_since=Now() - timedelta(seconds=age))
    coolify = ClassesOfCalls()
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: coolify)
    assert advance_one(slot) == timedelta(seconds=7)
    assert coolify.overdue == [overdue]


def test_an_overdue_text_may_use_more_of_the_budget_than_others(settings):
    calls = []

    class Gate:
        def before(self, call):
            calls.append(call.call_class)
            raise BudgetExhausted("spent", retry_after=1.0, reason="limit")

        def after(self, call, outcome, permit):
            return None

    from coolify.client import Coolify

    coolify = Coolify("http://127.0.0.1:9/api/v1", "token", gate=Gate())
    for overdue in (False, True):
        with pytest.raises(BudgetExhausted):
            coolify.update_application("app", description="text", overdue=overdue)
    assert calls == [CallClass.TEXT, CallClass.WATCH]
