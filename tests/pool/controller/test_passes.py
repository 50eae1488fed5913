"""One pass over all that is under way: when it looks, and how long it may take."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from bots.moves import Outcome
from bots.status import BotStatus
from coolify.client.resources import Application, ApplicationStatus
from coolify.client.resources import Deployment as InCoolify
from pool.assign import assign_bot_to_slot
from pool.controller import deployments as watching
from pool.controller import passes as tending
from pool.controller import stop as stopping
from pool.controller.passes import look_soon, tend_slots
from pool.lifecycle import end_bot, mark_slot_running
from slots.deployment import Deployment
from slots.models import Slot, Watch
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

TASK_LIMIT = 60.0  # of django-q2, in settings


class SlowCoolify:
    """Each call takes as long as a call may; its clock is the only one."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.calls: list[str] = []

    def __getattr__(self, name):
        def call(*arguments, **more):
            self.now += self.seconds
            self.calls.append(name)
            return ANSWERS.get(name, lambda *_: None)(*arguments)

        return call


ANSWERS = {
    "deployments": lambda: [],
    "applications": lambda: [
        Application(uuid=slot.coolify_uuid, name=slot.name, status=ApplicationStatus("exited"))
        for slot in Slot.objects.all()
    ],
    "deployment": lambda uuid: InCoolify(uuid=uuid, status="finished"),
    "start": lambda uuid: SimpleNamespace(deployment_uuid=f"start of {uuid}"),
}


@pytest.fixture
def coolify(request, monkeypatch):
    slow = SlowCoolify(getattr(request, "param", 0.0))
    for module in (stopping, tending, watching):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: slow.now))
    monkeypatch.setattr(tending, "shared_coolify", lambda: slow)
    return slow


def assigned(**deployment):
    SlotFactory()
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    Deployment.objects.filter(slot=slot).update(
        deadline=timezone.now() + timedelta(minutes=20), **deployment
    )
    return Slot.objects.get(pk=slot.pk)


def started(minutes_ago, **more):
    then = timezone.now() - timedelta(minutes=minutes_ago)
    return assigned(status="in_progress", start_asked_at=then, status_since=then, **more)


@pytest.mark.parametrize("coolify", [9.0], indirect=True)
def test_a_pass_ends_within_its_task_and_starts_somebody_however_slow_coolify_is(coolify):
    for _ in range(2):
        slot = started(3)
        mark_slot_running(slot, reason="Container runs", actor="test")
        end_bot(slot.assigned_bot, Outcome(BotStatus.DONE, "Over", "test"))
    for number in range(4):
        started(3, deployment_uuid=f"deployment-{number}")
    slot = assigned(status="starting")
    Slot.objects.update(image=Deployment.objects.get(slot=slot).image)

    tend_slots()

    assert coolify.now < TASK_LIMIT
    assert "start" in coolify.calls


def test_a_young_start_is_no_reason_to_look(coolify):
    started(0, deployment_uuid="deployment-1")
    tend_slots()
    assert coolify.calls == []


def test_a_notice_of_coolifys_makes_the_next_pass_look_and_no_other(coolify):
    Watch.objects.create(pk=True, looked_at=timezone.now())
    started(0, deployment_uuid="deployment-1")
    look_soon()
    tend_slots()
    tend_slots()
    assert coolify.calls.count("applications") == 1
