"""A Coolify that does not answer about some applications delays no repair of the others."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from coolify.client.errors import Unreachable
from coolify.client.resources import Application, ApplicationStatus
from coolify.client.transport import DEFAULT_TIMEOUT
from pool.controller.observe import Snapshot
from pool.reconciler.container_checks import wrong_containers
from pool.reconciler.reconcile import reconcile
from slots.models import Slot
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class SlowCoolify:
    """It never answers about some applications: the clock runs on for as long as a caller waits."""

    def __init__(self, clock: Clock, *, silent_about: set[str]) -> None:
        self.clock, self.silent_about = clock, silent_about

    def application(self, uuid: str, *, timeout: float = DEFAULT_TIMEOUT) -> Application:
        if uuid in self.silent_about:
            self.clock.now += timeout
            raise Unreachable("no complete answer within the timeout")
        return running(uuid)

    def application_deployments(self, uuid: str) -> list[object]:
        return []


def running(uuid: str) -> Application:
    return Application(uuid=uuid, name=uuid, status=ApplicationStatus.parse("running:healthy"))


def snapshot(*uuids: str) -> Snapshot:
    return Snapshot(
        began_at=timezone.now(),
        applications={uuid: running(uuid) for uuid in uuids},
        active_by_application={},
        active={},
    )


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pool.reconciler.reconcile.time", clock)
    monkeypatch.setattr("pool.reconciler.container_checks.time", clock, raising=False)
    return clock


def test_a_repair_that_coolify_does_not_answer_leaves_time_for_the_next(clock, monkeypatch):
    """Containers run in idle slots, and Coolify does not answer about most of them."""
    monkeypatch.setattr(settings, "CONTAINER_EVIDENCE", timedelta())
    slots = SlotFactory.create_batch(8)
    uuids = [slot.coolify_uuid for slot in slots]
    coolify = SlowCoolify(clock, silent_about=set(uuids[:-1]))
    monkeypatch.setattr("pool.reconciler.reconcile.shared_coolify", lambda: coolify)
    monkeypatch.setattr("pool.reconciler.reconcile.observe", lambda _: snapshot(*uuids))
    monkeypatch.setattr("pool.reconciler.reconcile.review", lambda *_, **__: None)
    for _ in range(4):
        reconcile()
    assert Slot.objects.get(pk=slots[-1].pk).status == "stopping"


def test_questions_about_missing_applications_leave_time_for_repairs(clock):
    slots = SlotFactory.create_batch(12)
    coolify = SlowCoolify(clock, silent_about={slot.coolify_uuid for slot in slots})
    assert list(wrong_containers(snapshot(), coolify, hearing_since=None)) == []
    assert clock.now <= settings.Q_CLUSTER["timeout"] / 2
