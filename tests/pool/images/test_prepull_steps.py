"""The steps of a pre-pull with Coolify: lost answers, killed workers, failures and the end."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.client.errors import NotAccepted, NotFound, Refused, Unavailable
from coolify.client.resources import (
    Application,
    ApplicationStatus,
    Cancellation,
    CreatedApplication,
    Deployment,
    Environment,
)
from coolify.client.starts import StartAnswer
from core import leases
from core.leases import acquire_lease, break_lease
from pool.controller.prepulls import work
from pool.controller.prepulls.work import LEASE, look_after_images
from pool.images.prepulls import ask_prepull, cancel_prepull
from pool.reconciler.orphans import has_our_name, names_of_prepulls
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import Prepull
from slots.models import Slot

pytestmark = pytest.mark.django_db(transaction=True)


class Coolify:
    """One application and its deployment. `fails`: the error of a call, before or after it."""

    def __init__(self) -> None:
        self.applications_made: list[str] = []
        self.started: list[str] = []
        self.calls: list[str] = []
        self.status = "in_progress"
        self.fails: dict[str, Exception] = {}
        self.loses: set[str] = set()

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise self.fails[name]

    def _lose(self, name: str) -> None:
        if name in self.loses:
            self.loses.remove(name)
            raise Unavailable("gone", maybe_done=True)

    def create_application(self, *, name: str, **_) -> CreatedApplication:
        self._call("create")
        self.applications_made.append(name)
        self._lose("create")
        return CreatedApplication(uuid=f"uuid of {name}")

    def environments(self, project: str) -> list[Environment]:
        return [Environment(name="production", id=1)]

    def applications(self) -> list[Application]:
        status = ApplicationStatus.parse("exited")
        made = [
            Application(uuid=f"uuid of {name}", name=name, status=status, environment_id=1)
            for name in self.applications_made
        ]
        return [Application(uuid="another", name=each.name, status=status) for each in made] + made

    def application(self, uuid: str) -> Application:
        self._call("application")
        return next(each for each in self.applications() if each.uuid == uuid)

    def start(self, uuid: str) -> StartAnswer:
        self._call("start")
        self.started.append(uuid)
        self._lose("start")
        return StartAnswer("deployment-1")

    def resolve_start(self, uuid: str, **_) -> Deployment:
        self._call("resolve")
        if not self.started:
            raise NotAccepted("none")
        return Deployment(uuid="deployment-1")

    def deployment(self, uuid: str) -> Deployment:
        self._call("deployment")
        return Deployment(uuid=uuid, status=self.status)

    def cancel_deployment(self, uuid: str) -> Cancellation:
        self._call("cancel")
        return Cancellation(status="cancelled-by-user")

    def delete_application(self, uuid: str) -> None:
        self._call("delete")
        self.applications_made.remove(uuid.removeprefix("uuid of "))


@pytest.fixture
def coolify(monkeypatch, settings) -> Coolify:
    settings.COOLIFY_SERVER_UUIDS = ["a"]
    settings.IMAGE_CLEANUP_TIMES = []
    fake = Coolify()
    monkeypatch.setattr(work, "shared_coolify", lambda: fake)
    return fake


@pytest.fixture
def prepull(coolify) -> Prepull:
    return ask_prepull(image="bot:2.0", server_uuid="a", actor="anna", reason="New")


def passes(number: int = 1) -> Prepull:
    """Periodic runs, each by a worker that knows only the rows. No pause is waited for."""
    for _ in range(number):
        Prepull.objects.update(next_try_at=None)
        look_after_images()
    return Prepull.objects.get()


def test_a_finished_pull_leaves_a_warm_image_and_nothing_else(coolify, prepull):
    assert passes(2).status == "pulling"
    coolify.status = "finished"
    done = passes(2)
    assert (done.status, done.pulling, done.coolify_uuid) == ("done", False, "")
    assert WarmImage.objects.get().evidence == "prepull"
    assert coolify.applications_made == [] and not Slot.objects.exists()


def test_its_application_is_no_orphan_while_the_row_knows_it(coolify, prepull):
    passes()
    [name] = coolify.applications_made
    assert name == f"pool-warmer-{prepull.pk}" and name in names_of_prepulls()
    status = ApplicationStatus.parse("exited")
    assert has_our_name(Application(uuid="x", name=name, status=status))


@pytest.mark.parametrize("lost", ["create", "start"])
def test_after_a_lost_answer_nothing_is_made_twice(coolify, prepull, lost):
    coolify.loses.add(lost)
    assert passes().status == "starting"
    assert passes(2).status == "pulling"
    assert (coolify.calls.count("create"), len(coolify.started)) == (1, 1)


def test_a_failed_deployment_fails_the_pre_pull(coolify, prepull):
    coolify.status = "failed"
    over = passes(3)
    assert (over.status, over.pulling) == ("failed", False)
    assert coolify.applications_made == [] and not WarmImage.objects.exists()


def test_a_server_that_went_away_says_nothing_about_the_image(coolify, prepull):
    passes()
    Server.objects.create(uuid="a", state="unreachable")
    coolify.status = "failed"
    assert passes().status == "given_up"


def test_a_pull_that_takes_too_long_is_cancelled_in_coolify(coolify, prepull):
    passes(2)
    Prepull.objects.update(deadline=Now() - timedelta(seconds=1))
    over = passes(2)
    assert (over.status, over.pulling, coolify.calls.count("cancel")) == ("failed", False, 1)
    assert coolify.applications_made == []


def test_the_time_in_coolifys_own_queue_does_not_count(coolify, prepull, settings):
    coolify.status = "queued"
    queued = passes(2)
    assert (queued.status, queued.detail) == ("starting", "Waits in Coolify's own queue")
    assert queued.deadline - queued.status_since == 2 * settings.DEPLOY_TIMEOUT
    Prepull.objects.update(deadline=Now() + timedelta(seconds=1))
    coolify.status = "in_progress"
    pulls = passes()
    assert (pulls.status, pulls.deadline - pulls.status_since) == (
        "pulling",
        settings.DEPLOY_TIMEOUT,
    )
    # From then on it does.
    assert passes(3).deadline == pulls.deadline


def test_a_pull_that_coolify_never_begins_is_not_the_images_fault(coolify, prepull):
    coolify.status = "queued"
    passes()
    Prepull.objects.update(deadline=Now() - timedelta(seconds=1))
    over = passes(2)
    assert (over.status, over.pulling, coolify.calls.count("cancel")) == ("given_up", False, 1)


def test_what_an_operator_cancels_is_cancelled_in_coolify(coolify, prepull):
    passes()
    assert cancel_prepull(Prepull.objects.get(), actor="anna", reason="Wrong tag")
    over = passes()
    assert (over.status, over.pulling) == ("cancelled", False)
    assert "cancel" in coolify.calls and coolify.applications_made == []


GONE = NotFound("404", thing="resource")


@pytest.mark.parametrize("status", ["starting", "pulling"])
def test_an_application_that_was_deleted_in_coolify_is_made_anew(coolify, prepull, status):
    passes()
    Prepull.objects.update(status=status)
    coolify.applications_made.clear()
    coolify.fails = dict.fromkeys(["application", "deployment", "start", "resolve"], GONE)
    lost = passes()
    assert (lost.status, lost.coolify_uuid) == ("starting", "")
    coolify.fails, coolify.started = {}, []
    assert (passes(2).status, coolify.calls.count("create")) == ("pulling", 2)


def test_a_missing_deployment_is_not_believed_while_the_application_is_in_doubt(coolify, prepull):
    passes(2)
    coolify.fails = dict.fromkeys(["application", "deployment"], GONE)
    assert (passes().status, coolify.calls.count("start")) == ("pulling", 1)


def test_a_cancelled_pull_is_not_let_go_of_while_its_end_is_in_doubt(coolify, prepull):
    passes()
    cancel_prepull(Prepull.objects.get(), actor="anna", reason="Wrong tag")
    coolify.fails = dict.fromkeys(["application", "cancel", "delete"], GONE)
    assert passes().pulling
    del coolify.fails["application"], coolify.fails["delete"]
    assert not passes().pulling


@pytest.mark.parametrize("during", ["create_application", "start"])
def test_one_that_is_cancelled_during_a_call_stays_cancelled(coolify, prepull, during, monkeypatch):
    call = getattr(coolify, during)

    def cancel_meanwhile(*args, **kwargs):
        cancel_prepull(Prepull.objects.get(), actor="anna", reason="Wrong tag")
        return call(*args, **kwargs)

    monkeypatch.setattr(coolify, during, cancel_meanwhile)
    over = passes()
    assert (over.status, over.pulling, coolify.applications_made) == ("cancelled", False, [])
    assert coolify.calls.count("cancel") == len(coolify.started)


def test_a_refused_image_fails_at_once(coolify, prepull):
    coolify.fails["create"] = Refused("422: no such registry", status=422)
    over = passes()
    assert over.status == "failed" and "no such registry" in over.detail


def test_an_outage_of_coolify_is_not_the_images_fault(coolify, prepull):
    coolify.fails["create"] = Unavailable("502")
    assert passes(2).status == "starting"
    Prepull.objects.update(deadline=Now() - timedelta(seconds=1))
    assert passes().status == "given_up"


def test_an_application_that_cannot_be_deleted_is_left_to_the_reconciler(coolify, prepull):
    passes()
    coolify.status, coolify.fails["delete"] = "finished", Unavailable("502")
    assert passes(3).coolify_uuid != ""
    Prepull.objects.update(ended_at=Now() - timedelta(hours=2))
    assert passes().coolify_uuid == ""
    assert names_of_prepulls() == set()


def test_a_long_pause_of_coolify_does_not_put_off_its_deadline(coolify, prepull):
    """Bots wait for as long as it counts as a pull."""
    passes(2)
    coolify.fails["deployment"] = Unavailable("503", retry_after=3600.0)
    assert passes().status == "pulling"
    Prepull.objects.update(deadline=Now())
    look_after_images()
    after = Prepull.objects.get()
    assert (after.status, after.pulling) == ("failed", False)


# --- A worker that was frozen -------------------------------------------------------------------


@pytest.fixture
def frozen_in(coolify, monkeypatch):
    """The worker is frozen in this call for longer than its lease, and others take over."""

    def freeze(name: str, meanwhile) -> None:
        call, hours = getattr(coolify, name), []

        def frozen(*args, **kwargs):
            monkeypatch.setattr(coolify, name, call)
            try:
                return call(*args, **kwargs)
            finally:
                hours.append(1)
                break_lease(LEASE)
                meanwhile()

        clock = leases._clock
        monkeypatch.setattr(leases, "_clock", lambda: clock() + 3_600 * len(hours))
        monkeypatch.setattr(coolify, name, frozen)

    return freeze


def test_a_worker_that_was_frozen_starts_nothing_more(coolify, prepull, frozen_in):
    coolify.fails["start"] = Unavailable("502", maybe_done=True)
    passes()
    del coolify.fails["start"]
    frozen_in("resolve_start", passes)
    passes()
    assert (Prepull.objects.get().status, len(coolify.started)) == ("starting", 1)


def test_a_worker_that_was_frozen_makes_no_second_application(coolify, prepull, frozen_in):
    coolify.fails["create"] = Unavailable("502", maybe_done=True)
    passes()
    del coolify.fails["create"]
    frozen_in("applications", passes)
    passes()
    assert (coolify.calls.count("create"), len(coolify.started)) == (2, 1)


def test_a_worker_that_was_frozen_cancels_and_deletes_nothing_more(coolify, prepull, frozen_in):
    passes()
    cancel_prepull(Prepull.objects.get(), actor="anna", reason="Wrong tag")
    frozen_in("cancel_deployment", passes)
    passes()
    assert (coolify.calls.count("cancel"), coolify.calls.count("delete")) == (2, 1)


def test_what_a_worker_found_before_it_was_frozen_is_not_written(coolify, prepull, frozen_in):
    passes()
    coolify.status = "finished"

    def end_and_prune():
        passes()
        WarmImage.objects.update(cold_since=Now(), cold_reason="A clean-up")

    frozen_in("deployment", end_and_prune)
    passes()
    assert WarmImage.objects.get().cold_since is not None


def test_pre_pulls_that_another_worker_holds_are_left_alone(coolify, prepull):
    acquire_lease(LEASE, ttl=timedelta(minutes=1))
    passes()
    assert coolify.calls == []
