"""Attacks on the controller: what once left a slot or bot stuck, or freed a slot too early."""

import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db.models.functions import Now

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus
from coolify.client.errors import CoolifyError, NotFound, RateLimited, Unavailable
from coolify.client.resources import Application, ApplicationStatus
from coolify.client.resources import Deployment as CoolifyDeployment
from core.clock import database_now
from core.leases import HeldLease, LeaseLost
from pool import claim
from pool.assign import assign_bot_to_slot
from pool.controller import advance as advance_module
from pool.controller import observe as observe_module
from pool.controller.advance import advance_slot
from pool.controller.delete import delete_slot
from pool.controller.observe import Snapshot, _store
from pool.drain import drain
from pool.lifecycle import mark_slot_running, release_bot_from_slot
from slots.deployment import Deployment, Watch
from slots.locks import with_status_lock
from slots.models import Slot
from tests.concurrency import at_once
from tests.controller import advance_one
from tests.factories import BotFactory, SlotFactory
from tests.queued import ask, pool_of

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
    answers = ScriptedAnswers(
        start=SimpleNamespace(deployment_uuid="d-1"),
        cancel_deployment=SimpleNamespace(status="cancelled-by-user"),
        applications=[],
    )
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: answers)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    return answers


def assigned(**deployment) -> Slot:
    SlotFactory(coolify_uuid="app-1", server_uuid="server-1", image="i:1")
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    Deployment.objects.filter(slot=slot).update(image="i:1", **deployment)
    return Slot.objects.get(pk=slot.pk)


def under_way(**deployment) -> Slot:
    started = {"status": "in_progress", "deployment_uuid": "d-1", "start_asked_at": Now()}
    return assigned(**{**started, "deadline": Now() + timedelta(minutes=25), **deployment})


def a_slot_that_its_bot_has_left() -> Slot:
    slot = assigned()
    mark_slot_running(slot, reason="The bot called from its container", actor="test")
    slot.refresh_from_db()
    release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Over", "test"))
    return slot


def observed(**seen) -> None:
    Slot.objects.update(**seen)
    Watch.objects.update_or_create(pk=True, defaults={"observed_at": database_now()})


def snapshot_of(state: str) -> Snapshot:
    application = Application(uuid="app-1", name="a", status=ApplicationStatus.parse(state))
    return Snapshot(
        began_at=database_now(),
        applications={"app-1": application},
        active_by_application={},
        active={},
    )


EXITED = {"container_status": "STOPPED", "application_state": "exited"}
RUNNING = {"container_status": "RUNNING", "application_state": "running"}


# --- Deadlines ----------------------------------------------------------------------------------


def test_a_long_pause_of_coolify_does_not_put_off_the_deadline_of_a_deployment(coolify):
    coolify.answers["deployment"] = RateLimited("429", retry_after=3600.0)
    slot = under_way(deadline=Now() + timedelta(minutes=1))
    observed(**EXITED)
    again = advance_one(slot)
    assert again is not None and again <= timedelta(minutes=1)


@pytest.mark.parametrize(
    ("seen", "answers"),
    [
        (EXITED, {"deployment": Unavailable("500")}),
        (EXITED, {"deployment": CoolifyDeployment(uuid="d-1", status="in_progress")}),
        ({"application_missing": True}, {"application": object()}),
        ({"application_missing": True}, {"application": Unavailable("500")}),
    ],
)
def test_a_deployment_that_coolify_never_explains_ends_at_its_deadline(coolify, seen, answers):
    coolify.answers.update(answers)
    slot = under_way()
    observed(**seen)
    advance_one(slot)
    assert Slot.objects.get(pk=slot.pk).status == "deploying"
    Deployment.objects.update(deadline=Now() - timedelta(seconds=1))
    advance_one(slot)
    assert Deployment.objects.earliest("id").status == "timed_out"


def test_a_start_that_is_accepted_and_never_made_ends_some_time(coolify, settings):
    """Coolify accepts each start and knows nothing of it afterwards."""
    coolify.answers["deployment"] = NotFound("none", thing="deployment")
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    for _ in range(5):
        long_ago = Now() - settings.DEPLOY_TIMEOUT - timedelta(hours=1)
        Deployment.objects.update(created_at=long_ago, next_try_at=None)
        advance_one(slot)
        observed(**EXITED)
        advance_one(slot)
    assert Bot.objects.get().failure_cause == "queue_timeout"


# --- What was observed, and when ----------------------------------------------------------------


def test_an_observation_that_ends_during_a_step_makes_the_slot_in_hand_no_newer(
    coolify, monkeypatch
):
    """The slot is read with an old `exited`. Then an observation shows its container running."""
    slot = a_slot_that_its_bot_has_left()
    Slot.objects.update(**EXITED)
    advance_one(slot)  # sends the stop
    real = advance_module.advance

    def observe_meanwhile(context):
        observed(**RUNNING)
        return real(context)

    monkeypatch.setattr(advance_module, "advance", observe_meanwhile)
    advance_one(slot)
    assert Slot.objects.get().status == "stopping"


def test_an_older_snapshot_does_not_overwrite_a_newer_one():
    """The reconciler and the observer each take snapshots, at the same time."""
    SlotFactory(coolify_uuid="app-1")
    older, newer = snapshot_of("exited"), snapshot_of("running:healthy")
    _store(newer)
    _store(older)
    assert Slot.objects.get().application_state == "running"
    assert Watch.objects.get().observed_at == newer.began_at


def test_a_snapshot_that_is_overtaken_while_it_is_stored_writes_no_more(monkeypatch):
    SlotFactory(coolify_uuid="app-1")
    older, newer = snapshot_of("exited"), snapshot_of("running:healthy")
    real, overtaken = observe_module._seen, []

    def overtake(slot, snapshot):
        if snapshot is older and not overtaken:
            overtaken.append(True)
            _store(newer)
        return real(slot, snapshot)

    monkeypatch.setattr(observe_module, "_seen", overtake)
    _store(older)
    assert overtaken
    assert Slot.objects.get().application_state == "running"
    assert Watch.objects.get().observed_at == newer.began_at


def test_nothing_is_known_of_a_new_application_from_the_one_before_it(coolify):
    slot = a_slot_that_its_bot_has_left()
    Slot.objects.update(**RUNNING, server_unreachable=True, application_missing=True)
    coolify.answers["stop"] = NotFound("none", thing="application")
    advance_one(slot)
    slot = Slot.objects.get()
    assert (slot.status, slot.coolify_uuid) == ("idle", "")
    assert (slot.container_status, slot.application_state) == ("IDLE", "")
    assert not slot.server_unreachable


# --- A token that sees nothing ------------------------------------------------------------------


def test_a_token_of_another_team_frees_no_slot_at_its_stop(coolify):
    slot = a_slot_that_its_bot_has_left()
    coolify.answers["stop"] = NotFound("none", thing="application")
    coolify.answers["environments"] = NotFound("none", thing="project")
    advance_one(slot)
    slot = Slot.objects.get()
    assert (slot.status, slot.coolify_uuid) == ("stopping", "app-1")


def test_a_token_of_another_team_forgets_no_application_at_a_start(coolify):
    coolify.answers["set_envs"] = NotFound("none", thing="application")
    coolify.answers["environments"] = NotFound("none", thing="project")
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    advance_one(slot)
    slot = Slot.objects.get()
    assert (slot.status, slot.coolify_uuid) == ("deploying", "app-1")
    assert "create_application" not in coolify.calls


def test_a_list_without_our_applications_forgets_none_at_a_start(coolify):
    """A Coolify from an old backup: it shows our project, and no application."""
    coolify.answers["set_envs"] = NotFound("none", thing="application")
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    SlotFactory.create_batch(3)
    advance_one(slot)
    slot.refresh_from_db()
    assert (slot.status, slot.coolify_uuid) == ("deploying", "app-1")
    assert "lacks the applications of 4 of 4 slots" in Deployment.objects.get().reason


def test_an_application_that_is_listed_is_not_gone(coolify):
    coolify.answers["set_envs"] = NotFound("none", thing="application")
    coolify.answers["applications"] = [*snapshot_of("exited").applications.values()]
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    advance_one(slot)
    assert Slot.objects.get().coolify_uuid == "app-1"


def test_a_token_of_another_team_ends_no_deployment(coolify):
    coolify.answers["cancel_deployment"] = NotFound("none", thing="deployment")
    coolify.answers["application"] = NotFound("none", thing="application")
    coolify.answers["environments"] = NotFound("none", thing="project")
    slot = under_way()
    release_bot_from_slot(slot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    advance_one(slot)
    assert Deployment.objects.get().coolify_ended_at is None
    assert Slot.objects.get().status == "stopping"


def test_a_token_of_another_team_refuses_no_start(coolify):
    """Its project does not exist, so no application can be created."""
    coolify.answers["create_application"] = NotFound("none", thing="project")
    coolify.answers["environments"] = NotFound("none", thing="project")
    slot = assigned(status="starting", deadline=Now() + timedelta(minutes=25))
    Slot.objects.update(coolify_uuid="")
    advance_one(slot)
    assert Slot.objects.get().status == "deploying"
    assert "does not show our project" in Deployment.objects.get().reason


def test_a_token_of_another_team_takes_no_bot_from_its_slot(coolify):
    coolify.answers["application"] = NotFound("none", thing="application")
    coolify.answers["environments"] = NotFound("none", thing="project")
    slot = under_way()
    observed(application_missing=True)
    advance_one(slot)
    assert Slot.objects.get().status == "deploying"


def test_a_token_of_another_team_does_not_undo_a_start(coolify):
    """Else a slot whose bot is cancelled would be taken for one that was never started."""
    coolify.answers["deployment"] = NotFound("none", thing="deployment")
    coolify.answers["application"] = NotFound("none", thing="application")
    coolify.answers["environments"] = NotFound("none", thing="project")
    slot = under_way()
    observed(**EXITED)
    advance_one(slot)
    deployment = Deployment.objects.get()
    assert (deployment.status, deployment.deployment_uuid) == ("in_progress", "d-1")


def test_a_token_of_another_team_deletes_no_slot():
    answers = ScriptedAnswers(
        delete_application=NotFound("none", thing="application"),
        environments=NotFound("none", thing="project"),
    )
    slot = SlotFactory(coolify_uuid="app-1")
    with pytest.raises(CoolifyError):
        delete_slot(slot, reason="Not needed", actor="test", coolify=answers)
    assert Slot.objects.get().coolify_uuid == "app-1"


# --- Locks --------------------------------------------------------------------------------------


def test_a_drain_that_has_to_grow_does_not_block_a_request_that_does(monkeypatch, settings):
    """The drain holds the last idle slot and wants to grow; the request may grow and wants it."""
    pool_of(settings, 0)
    ask(), ask()
    SlotFactory()
    pool_of(settings, 10)
    has_slot, may_grow = threading.Event(), threading.Event()
    real = claim._lock_growth
    draining = {}

    def lock_growth(platform):
        if threading.get_ident() == draining.get("thread"):
            has_slot.set()
            may_grow.wait(1)
            return real(platform)
        grown = real(platform)
        may_grow.set()
        return grown

    monkeypatch.setattr(claim, "_lock_growth", lock_growth)

    def drain_queue():
        draining["thread"] = threading.get_ident()
        return drain("google-meet")

    def request():
        assert has_slot.wait(60)
        return assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")

    given, got = at_once([drain_queue, request])
    assert isinstance(given, list), given
    assert isinstance(got, Slot), got


# --- Leases -------------------------------------------------------------------------------------


def test_a_lease_that_seems_lost_does_not_end_the_quarantine(coolify, monkeypatch):
    """By this host's clock the lease has expired, but its row is still ours."""
    slot = under_way()
    Slot.objects.update(status="error", assigned_bot=None, previous_status="deploying", error="x")
    Deployment.objects.update(status="failed", ended_at=Now())

    def expired(self):
        raise LeaseLost("expired")

    with with_status_lock(slot) as lease:
        monkeypatch.setattr(HeldLease, "check", expired)
        assert advance_slot(slot.pk, lease) is not None
