"""advance(slot): deadlines, back-off, order, and bots that are placed again at once."""

import logging
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import transaction
from django.db.models.functions import Now

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from coolify.client.errors import NotAccepted, NotFound, Unreachable
from coolify.client.resources import Deployment as CoolifyDeployment
from coolify.shared import shared_coolify
from core.clock import database_now
from core.leases import Lease
from pool.assign import assign_bot_to_slot
from pool.controller import observe as observe_module
from pool.controller.advance import sweep_slots
from pool.controller.observe import observe
from pool.lifecycle import end_bot, handle_slot_error
from pool.reports import record_heartbeat, record_status
from pool.steering import fit_pools
from slots.deployment import Deployment, Watch
from slots.models import Slot
from slots.tokens import Assignment
from tests.concurrency import at_once
from tests.controller import advance_one, tend_slots
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


class ScriptedAnswers:
    """A Coolify that answers each call as the test says, and records the calls."""

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments, **more):
            self.calls.append(name)
            answer = self.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@pytest.fixture
def coolify(monkeypatch):
    answers = ScriptedAnswers(start=SimpleNamespace(deployment_uuid="d-1"), applications=[])
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: answers)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    return answers


def assigned(*, priority=100, server="server-1", **deployment) -> Slot:
    SlotFactory(server_uuid=server, image="i:1")
    bot = BotFactory(priority=priority)
    slot = assign_bot_to_slot(bot, reason="Bot requested", actor="test")
    Deployment.objects.filter(slot=slot).update(image="i:1", **deployment)
    return Slot.objects.get(pk=slot.pk)


def deployment_of(slot: Slot) -> Deployment:
    return Deployment.objects.get(slot=slot, epoch=slot.epoch)


def late(**more):
    return {"deadline": Now() - timedelta(seconds=1), **more}


# --- Recovery from `error` ----------------------------------------------------------------------


def in_error(*, attempts=0, ago=timedelta()) -> Slot:
    SlotFactory()
    Slot.objects.update(
        status="error",
        previous_status="idle",
        error="It does not start",
        recovery_attempts=attempts,
        status_since=Now() - ago,
    )
    return Slot.objects.get()


def test_a_slot_in_error_recovers_when_its_pause_is_over(coolify, settings):
    settings.RECOVERY_PAUSE = timedelta(minutes=1)
    slot = in_error(ago=timedelta(seconds=30))
    left = advance_one(slot)
    assert timedelta(seconds=20) < left <= timedelta(seconds=30)
    assert Slot.objects.get().status == "error"
    Slot.objects.update(status_since=Now() - timedelta(seconds=61))
    advance_one(slot)
    slot = Slot.objects.get()
    assert (slot.status, slot.status_actor, slot.recreate) == ("stopping", "controller", False)
    assert slot.status_reason == "Attempt 1 to recover from: It does not start"


def test_the_pause_before_an_attempt_grows(coolify, settings):
    settings.RECOVERY_PAUSE = timedelta(minutes=1)
    slot = in_error(attempts=1, ago=timedelta(minutes=3))
    assert advance_one(slot) > timedelta(seconds=50)
    assert Slot.objects.get().status == "error"
    Slot.objects.update(status_since=Now() - timedelta(minutes=5))
    advance_one(slot)
    slot = Slot.objects.get()
    assert (slot.status, slot.recreate) == ("stopping", True)


def test_after_a_few_attempts_it_waits_for_an_operator(coolify, settings):
    settings.RECOVERY_ATTEMPTS = 2
    slot = in_error(attempts=2, ago=timedelta(days=1))
    assert advance_one(slot) is None
    assert Slot.objects.get().status == "error"


def test_it_recovers_even_if_its_deployment_cannot_be_cancelled(coolify, settings):
    settings.RECOVERY_PAUSE = timedelta(minutes=1)
    coolify.answers["cancel_deployment"] = Unreachable("away")
    slot = assigned(status="in_progress", start_asked_at=Now(), deployment_uuid="d-1")
    handle_slot_error(slot, "No container", cause=FailureCause.CONTAINER_FAILED, actor="test")
    assert advance_one(slot) < timedelta(minutes=1)
    Slot.objects.filter(pk=slot.pk).update(status_since=Now() - timedelta(seconds=61))
    advance_one(slot)
    assert Slot.objects.get(pk=slot.pk).status == "stopping"


def test_the_sweep_finds_a_slot_in_error_whose_job_was_lost(settings):
    slot = in_error()
    assert sweep_slots() == [slot.pk]
    settings.RECOVERY_ATTEMPTS = 0
    Lease.objects.update(due_at=None, asked_at=None)
    assert sweep_slots() == []


# --- Every state has a deadline -----------------------------------------------------------------


@pytest.mark.parametrize("status", ["waiting_for_image", "waiting_for_place"])
def test_a_bot_that_waits_too_long_for_its_image_or_place_gives_up(coolify, status):
    slot = assigned(**late(status=status))
    advance_one(slot)
    bot = Bot.objects.get()
    assert (bot.status, bot.failure_cause) == ("FAILED", "queue_timeout")
    assert Slot.objects.get().status == "idle"
    assert coolify.calls == []


def test_its_time_to_wait_is_the_one_its_client_set(coolify):
    SlotFactory()
    bot = BotFactory(queue_timeout=timedelta(seconds=77))
    slot = assign_bot_to_slot(bot, reason="Bot requested", actor="test")
    left = deployment_of(slot).deadline - database_now()
    assert timedelta(seconds=60) < left <= timedelta(seconds=77)


def test_a_start_that_coolify_never_accepts_ends_at_its_deadline(coolify):
    """Coolify away for hours: no bot stays DEPLOYING, none is started when it is back, and the slot
    is usable again."""
    coolify.answers["set_envs"] = Unreachable("away")
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    advance_one(slot)
    assert Bot.objects.get().status == "DEPLOYING"
    Deployment.objects.update(**late())
    advance_one(slot)
    bot = Bot.objects.get()
    assert (bot.status, bot.failure_cause) == ("FAILED", "start_timed_out")
    assert Deployment.objects.get().status == "timed_out"
    slot = Slot.objects.get()
    assert (slot.status, slot.recovery_attempts) == ("idle", 0)
    assert "start" not in coolify.calls


def test_a_start_without_an_answer_is_ended_before_its_slot_is_used_again(coolify):
    """It may have arrived: its container would run beside the next bot."""
    coolify.answers["resolve_start"] = Unreachable("away")
    slot = assigned(**late(status="starting", start_asked_at=Now()))
    advance_one(slot)
    assert Bot.objects.get().status == "FAILED"
    assert Slot.objects.get().status == "stopping"


def test_a_server_that_coolify_does_not_know_fails_the_start_at_once(coolify):
    coolify.answers["create_application"] = NotFound("no such server", thing="server")
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    Slot.objects.update(coolify_uuid="")
    advance_one(slot)
    assert Deployment.objects.earliest("id").failure_cause == "start_refused"
    assert Slot.objects.get(pk=slot.pk).status == "error"


def test_a_deployment_that_is_never_observed_ends_at_its_deadline(coolify):
    coolify.answers["cancel_deployment"] = SimpleNamespace(status="cancelled-by-user")
    slot = assigned(**late(status="in_progress", start_asked_at=Now(), deployment_uuid="d-1"))
    advance_one(slot)
    assert Deployment.objects.earliest("id").status == "timed_out"


def test_a_slot_that_deploys_without_a_deployment_is_given_up(coolify):
    slot = assigned()
    Deployment.objects.all().delete()
    advance_one(slot)
    assert Slot.objects.get(pk=slot.pk).status == "error"


# --- Starts are tried again in growing pauses --------------------------------------------------


def test_a_start_that_coolify_skipped_is_tried_again_after_two_seconds_then_four(coolify):
    coolify.answers["start"] = SimpleNamespace(deployment_uuid=None)
    coolify.answers["resolve_start"] = NotAccepted("already queued")
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    for seconds in (2, 4, 8):
        before = database_now()
        advance_one(slot)
        tried_at = deployment_of(slot).next_try_at - timedelta(seconds=seconds)
        assert before <= tried_at <= database_now()
        Deployment.objects.update(next_try_at=Now())


# --- A failed start -----------------------------------------------------------------------------


def failed_in_coolify(slot: Slot) -> None:
    Deployment.objects.filter(slot=slot).update(
        status="in_progress",
        start_asked_at=Now() - timedelta(seconds=9),
        status_since=Now() - timedelta(seconds=9),
        deployment_uuid="d-1",
        coolify_status="failed",
        coolify_ended_at=Now(),
        deadline=Now() + timedelta(minutes=20),
    )
    Slot.objects.filter(pk=slot.pk).update(container_status="STOPPED", application_state="exited")
    Watch.objects.update_or_create(pk=True, defaults={"observed_at": database_now()})


def test_a_bot_whose_start_failed_is_placed_in_another_slot_at_once(coolify):
    slot = assigned()
    other = SlotFactory(server_uuid="server-1")
    failed_in_coolify(slot)
    advance_one(slot)
    bot = Bot.objects.get()
    assert (bot.status, bot.slot_name) == ("DEPLOYING", other.name)
    assert Slot.objects.get(pk=slot.pk).status == "error"
    assert "stop" not in coolify.calls


def test_a_container_that_comes_up_after_its_bot_was_placed_elsewhere_is_told_to_leave(coolify):
    slot = assigned()
    SlotFactory(server_uuid="server-1")
    former = Assignment(bot_id=slot.assigned_bot_id, slot_id=slot.pk, epoch=slot.epoch)
    failed_in_coolify(slot)
    advance_one(slot)
    assert not record_heartbeat(former)
    assert not record_status(former, BotStatus.JOINING_CALL, reason="")
    assert not record_status(former, BotStatus.DONE, reason="")
    bot = Bot.objects.get()
    assert (bot.status, bot.last_heartbeat_at) == ("DEPLOYING", None)


def test_a_slot_in_quarantine_cancels_what_coolify_may_still_start(coolify):
    coolify.answers["cancel_deployment"] = SimpleNamespace(status="cancelled-by-user")
    slot = assigned(**late(status="in_progress", start_asked_at=Now(), deployment_uuid="d-1"))
    advance_one(slot)
    assert coolify.calls == ["cancel_deployment", "deployment_log"]
    assert Deployment.objects.earliest("id").coolify_status == "cancelled-by-user"


# --- Nothing is forgotten -----------------------------------------------------------------------


def test_the_sweep_asks_for_a_slot_that_no_job_handles(coolify):
    slot = assigned(status="starting")
    SlotFactory()
    assert sweep_slots() == [slot.pk]
    assert Lease.objects.get(key=f"slot:{slot.pk}").asked_at is not None
    assert sweep_slots() == []


def test_a_slot_without_anything_to_do_is_not_due_again(coolify):
    assert advance_one(SlotFactory()) is None


def test_a_slot_that_was_deleted_is_no_error(coolify):
    slot = SlotFactory()
    Slot.objects.all().delete()
    assert advance_one(slot) is None


# --- With a simulated Coolify -------------------------------------------------------------------


def test_one_hanging_question_delays_no_other_slot(coolify):
    """Coolify is asked how the first deployment ended, and never answers."""
    asked, may_answer = threading.Event(), threading.Event()

    def deployment(uuid):
        if uuid == "hangs":
            asked.set()
            assert may_answer.wait(60)
        return CoolifyDeployment(uuid=uuid, status="failed")

    coolify.deployment = deployment
    hanging, other = assigned(), assigned()
    for slot, uuid in ((hanging, "hangs"), (other, "answers")):
        failed_in_coolify(slot)
        Deployment.objects.filter(slot=slot).update(
            deployment_uuid=uuid, coolify_status="", coolify_ended_at=None
        )

    def judge_the_other():
        assert asked.wait(60)
        advance_one(other)
        status = Slot.objects.get(pk=other.pk).status
        may_answer.set()
        return status

    assert at_once([lambda: advance_one(hanging), judge_the_other])[1] == "error"


def observe_now() -> None:
    observe(shared_coolify())


@pytest.mark.slow
def test_an_observation_leaves_rows_alone_that_have_not_changed(pool):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    observe_now()
    seen = Slot.objects.get()
    observe_now()
    assert Slot.objects.get().container_seen_at == seen.container_seen_at
    assert Watch.objects.get().observed_at > seen.container_seen_at


@pytest.mark.slow
def test_an_idle_slot_can_be_claimed_while_coolify_is_observed(pool, monkeypatch):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    end_bot(bot, Outcome(BotStatus.DONE, "Over", "test"))
    pool.until(pool.all_idle)
    observe_now()
    locked = []

    real = observe_module._store_on_slot

    def claim_meanwhile(slot, snapshot):
        changed = real(slot, snapshot)
        locked.append(changed)
        return changed

    monkeypatch.setattr(observe_module, "_store_on_slot", claim_meanwhile)
    observe_now()
    assert locked == [False]
    again = pool.request()
    assert Bot.objects.get(pk=again.pk).slot_name == Slot.objects.get().name


def test_a_locked_idle_slot_is_waited_for_before_the_pool_grows():
    """Another transaction holds the only idle slot for a moment: that is no reason to grow."""
    slot = SlotFactory()
    fit_pools()
    locked, may_end = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Slot.objects.select_for_update().get(pk=slot.pk)
            locked.set()
            may_end.wait(1)

    def claim():
        assert locked.wait(60)
        return assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")

    _, claimed = at_once([hold, claim])
    assert claimed.pk == slot.pk
    assert Slot.objects.count() == 1


def test_waiting_bots_are_started_in_the_order_of_the_queue(coolify, settings, caplog):
    """Priority holds for build places too."""
    caplog.set_level(logging.INFO)
    settings.MAX_CONCURRENT_DEPLOYMENTS = 1
    for priority in (100, 100, 100, 1):
        assigned(priority=priority, status="waiting_for_place")
    tend_slots()
    started = Deployment.objects.exclude(status="waiting_for_place").select_related("bot")
    assert sorted(each.bot.priority for each in started) == [1, 100]


def test_a_failed_start_says_why_in_a_code(coolify):
    slot = assigned()
    failed_in_coolify(slot)
    advance_one(slot)
    assert Deployment.objects.earliest("id").failure_cause == FailureCause.DEPLOYMENT_FAILED
