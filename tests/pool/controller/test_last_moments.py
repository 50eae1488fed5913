"""Something may happen between reading a row and acting on it."""

import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from coolify.client.errors import BudgetExhausted, CoolifyError
from coolify.client.resources import Application, ApplicationStatus
from core import leases
from core.leases import LeaseLost, acquire_lease, holding_lease
from pool.assign import assign_bot_to_slot
from pool.controller import applications, start
from pool.controller.context import SlotContext, pause_after_error
from pool.drain import drain
from pool.lifecycle import end_bot, handle_slot_error, mark_slot_running
from slots.deployment import Deployment, Watch
from slots.locks import with_status_lock
from slots.models import Slot, SlotTransition
from tests.concurrency import all_at_once
from tests.controller import advance_one
from tests.factories import BotFactory, SlotFactory
from tests.processes import wait_until
from tests.queued import ask, pool_of, statuses

pytestmark = pytest.mark.django_db(transaction=True)


class NeverCalled:
    """A Coolify that must not be called."""

    def __getattr__(self, name: str):
        raise AssertionError(f"Coolify was called: {name}")


def deploying_slot() -> Slot:
    SlotFactory()
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    Deployment.objects.update(
        status="in_progress",
        start_asked_at=Now(),
        deployment_uuid="d-1",
        coolify_status="failed",
        coolify_ended_at=Now(),
    )
    return slot


def the_bot_calls(slot: Slot) -> bool:
    return mark_slot_running(slot, reason="The bot calls", actor="bot")


# --- A failed start whose bot is alive after all ---


def test_a_bot_that_has_called_is_not_failed_by_a_late_verdict():
    slot = deploying_slot()
    assert the_bot_calls(Slot.objects.get())
    assert not handle_slot_error(
        slot, "It failed", cause=FailureCause.CONTAINER_FAILED, actor="test", place_again=False
    )
    assert Bot.objects.get().status == BotStatus.JOINING_CALL


def test_a_step_that_read_the_slot_before_its_bot_called_leaves_it_alone(monkeypatch):
    slot = deploying_slot()
    Watch.objects.create(pk=True, observed_at=Now())
    Slot.objects.update(container_status="STOPPED", application_state="exited")
    real = start.judge

    def the_bot_calls_meanwhile(seen):
        assert the_bot_calls(Slot.objects.get())
        return real(seen)

    monkeypatch.setattr(start, "judge", the_bot_calls_meanwhile)
    monkeypatch.setattr("pool.controller.advance.shared_coolify", NeverCalled)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    advance_one(slot)
    assert Slot.objects.get().status == "busy"
    assert Bot.objects.get().status == BotStatus.JOINING_CALL


# --- Leases ---


def test_a_lease_that_has_expired_by_the_hosts_clock_is_lost_without_a_query():
    lease = acquire_lease("test", ttl=timedelta(milliseconds=50))
    time.sleep(0.06)
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_lease_is_kept_although_the_database_was_away_for_a_moment(monkeypatch):
    real, failures = leases.extend_lease, []

    def extend(lease, ttl=None):
        if not failures:
            failures.append(1)
            raise OperationalError("the connection is lost")
        real(lease, ttl)

    monkeypatch.setattr(leases, "extend_lease", extend)
    with holding_lease("test", ttl=timedelta(seconds=4)) as lease:
        first_end = lease.valid_until
        wait_until(lambda: leases._clock() > first_end, what="its first time is over")
        lease.check()
    assert failures


# --- An application whose answer was lost ---


def application(slot: Slot, **differently) -> Application:
    fields = {"uuid": "new", "name": slot.name, "environment_id": 1}
    status = ApplicationStatus.parse(differently.pop("status", "exited:unhealthy"))
    return Application(**{**fields, **differently}, status=status)


@pytest.mark.parametrize(
    ("differently", "is_it"),
    [
        ({}, True),
        ({"environment_id": 2}, False),
        ({"environment_id": None}, False),
        ({"status": "running:healthy"}, False),
        ({"uuid": "an-earlier-one"}, False),
        ({"uuid": "another-slots"}, False),
    ],
)
def test_only_what_is_certainly_the_lost_application_is_adopted(differently, is_it):
    slot = SlotFactory()
    SlotFactory(coolify_uuid="another-slots")
    SlotTransition.objects.create(
        slot=slot, slot_name=slot.name, coolify_uuid="an-earlier-one", epoch=1, to_status="idle"
    )
    found = application(slot, **differently)
    assert applications._may_be_the_lost_one(found, slot, environment=1) == is_it


@pytest.mark.parametrize(("maybe_done", "is_looked_for"), [(True, True), (False, False)])
def test_an_application_is_looked_for_only_if_it_may_have_been_made(maybe_done, is_looked_for):
    def create(**_):
        raise CoolifyError("it went wrong", maybe_done=maybe_done)

    slot = SlotFactory(coolify_uuid="")
    coolify = SimpleNamespace(create_application=create)
    with with_status_lock(slot) as lease, pytest.raises(CoolifyError):
        applications.make_application(SlotContext(slot, lease, coolify), image="i:1")
    slot.refresh_from_db()
    assert (slot.application_asked_at is not None) == is_looked_for


# --- What does not work ---


@pytest.mark.parametrize(("age", "pause"), [(1, 5), (60, 15), (3600, 60)])
def test_what_has_not_worked_for_long_is_tried_less_often(age, pause):
    slot = SlotFactory(status_since=Now() - timedelta(seconds=age))
    slot.refresh_from_db()
    seconds = pause_after_error(CoolifyError("no"), since=slot.status_since).total_seconds()
    assert seconds == pytest.approx(pause, abs=2)


def test_what_the_budget_held_back_is_tried_when_the_budget_says():
    error = BudgetExhausted("later", retry_after=2.0, reason="test")
    slot = SlotFactory()
    slot.refresh_from_db()
    assert pause_after_error(error, since=slot.status_since) == timedelta(seconds=2)


# --- A pull without an application ---


def test_a_pull_whose_application_is_gone_holds_no_other_up(monkeypatch):
    monkeypatch.setattr("pool.controller.advance.shared_coolify", NeverCalled)
    slot = deploying_slot()
    Deployment.objects.update(
        pulling=True, leader=True, deployment_uuid="", coolify_status="", coolify_ended_at=None
    )
    Slot.objects.update(coolify_uuid="")
    end_bot(Bot.objects.get(), Outcome(BotStatus.CANCELLED, "Not needed", "client"))
    advance_one(slot)
    assert Slot.objects.get().status == "idle"
    assert not Deployment.objects.get().pulling


# --- The head of a line ---


def test_a_lock_on_its_key_does_not_cost_the_first_in_line_its_turn(settings):
    """A row that refers to the bot, such as its idempotency key, takes such a lock."""
    pool_of(settings, 0)
    first, second = ask(), ask()
    SlotFactory()
    locked, drained = threading.Event(), threading.Event()

    def refer_to_it():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT FROM bots_bot WHERE id = %s FOR KEY SHARE", [first.pk])
            locked.set()
            assert drained.wait(60)

    def serve():
        assert locked.wait(60)
        try:
            drain("google-meet")
        finally:
            drained.set()

    all_at_once([refer_to_it, serve])
    assert statuses(first, second) == ["DEPLOYING", "QUEUED"]
