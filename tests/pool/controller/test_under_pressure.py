"""Calls to Coolify that are saved while the budget is tight."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db.models.functions import Now

from coolify.client.errors import BudgetExhausted
from coolify.client.resources import Deployment as CoolifyDeployment
from core.clock import database_now
from pool.controller import start
from pool.controller.context import AT_ONCE
from pool.controller.descriptions import describe
from pool.controller.start import wait_for_deployment
from slots.models import Slot
from slots.status import ContainerStatus
from tests.factories import DeploymentFactory

pytestmark = pytest.mark.django_db

A_MINUTE_AND_MORE = timedelta(seconds=90)


class Coolify:
    """Knows one deployment, which has ended. Notes what it is asked for; takes no description."""

    def __init__(self):
        self.asked, self.overdue = [], []

    def deployment(self, uuid):
        self.asked.append(uuid)
        return CoolifyDeployment(uuid, status="finished")

    def update_application(self, uuid, *, description, overdue):
        self.overdue.append(overdue)
        raise BudgetExhausted("spent", retry_after=7.0, reason="limit")


@pytest.fixture
def deployment():
    return DeploymentFactory(
        status="in_progress",
        status_since=Now() - A_MINUTE_AND_MORE,
        start_asked_at=Now() - A_MINUTE_AND_MORE,
        deadline=Now() + timedelta(minutes=5),
        deployment_uuid="d-1",
    )


def judged(deployment, *, seen_for, pressure, monkeypatch) -> tuple[timedelta, list[str]]:
    """Of a deployment that was seen to be over that many seconds ago."""
    monkeypatch.setattr(start, "pressure", lambda: pressure)
    Slot.objects.update(
        container_status=ContainerStatus.STOPPED,
        container_seen_at=Now() - timedelta(seconds=seen_for),
    )
    deployment.refresh_from_db()
    context = SimpleNamespace(
        slot=deployment.slot, coolify=Coolify(), observed_at=database_now(), actor="test"
    )
    return wait_for_deployment(context, deployment), context.coolify.asked


def test_a_bots_first_call_is_waited_for_before_coolify_is_asked(deployment, monkeypatch):
    again, asked = judged(deployment, seen_for=2, pressure=1.0, monkeypatch=monkeypatch)
    assert asked == []
    assert timedelta() < again <= timedelta(seconds=3)


@pytest.mark.parametrize(("seen_for", "pressure"), [(2, 0.9), (5, 1.0), (3600, 1.0)])
def test_it_is_asked_in_quiet_times_and_if_no_call_came(
    deployment, monkeypatch, seen_for, pressure
):
    again, asked = judged(deployment, seen_for=seen_for, pressure=pressure, monkeypatch=monkeypatch)
    assert (again, asked) == (AT_ONCE, ["d-1"])


@pytest.mark.parametrize(
    ("written", "overdue"),
    [
        ("[IDLE] Available", False),
        ("", False),
        ("[BUSY] Bot #7 - 2026-11-18T10:00:00Z", True),
        ("(DEPLOYING) Bot 7 - 20261118T100000Z", True),
    ],
)
def test_the_text_of_a_long_start_is_put_off_unless_it_names_another_bot(
    deployment, written, overdue
):
    fields = {"status_since": Now() - A_MINUTE_AND_MORE, "description_written": written}
    Slot.objects.update(coolify_uuid="app", **fields)
    context = SimpleNamespace(slot=Slot.objects.get(), coolify=Coolify())
    assert describe(context) == timedelta(seconds=7)
    assert context.coolify.overdue == [overdue]
