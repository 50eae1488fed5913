"""A start that ends is noticed within seconds, by one call for all of them."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from coolify.client.errors import Unavailable
from coolify.client.resources import Deployment as CoolifyDeployment
from core.clock import database_now
from pool.controller.containers import ends
from pool.controller.containers.ends import a_start_has_ended
from slots.deployment import Deployment, Watch
from tests.factories import DeploymentFactory

pytestmark = pytest.mark.django_db


class Deployments:
    """Coolify, which lists these deployments as active."""

    def __init__(self, *uuids):
        self.uuids, self.calls, self.error = uuids, 0, None

    def deployments(self, *, observing):
        self.calls += 1
        if self.error:
            raise self.error
        return [CoolifyDeployment(uuid, status="in_progress") for uuid in self.uuids]


@pytest.fixture(autouse=True)
def _a_start_under_way():
    DeploymentFactory(
        status="in_progress",
        status_since=Now() - timedelta(minutes=2),
        start_asked_at=Now() - timedelta(minutes=2),
        deployment_uuid="d-1",
    )
    Watch.objects.create(looked_at=Now() - timedelta(seconds=20))


def asked(coolify, *, looked_before=timedelta(seconds=20)) -> bool:
    now = database_now()
    return a_start_has_ended(coolify, now=now, looked_at=now - looked_before)


def test_a_start_that_is_no_longer_listed_has_ended():
    assert asked(Deployments("d-2")) is True


def test_a_start_that_is_listed_goes_on_and_is_asked_for_every_few_seconds():
    coolify = Deployments("d-1", "d-2")
    assert asked(coolify) is False
    assert asked(coolify) is False
    assert coolify.calls == 1
    Watch.objects.update(starts_asked_at=Now() - timedelta(seconds=4))
    assert asked(coolify) is False
    assert coolify.calls == 2


def test_nothing_is_asked_without_need(monkeypatch):
    coolify = Deployments()
    # An observation has just answered it.
    assert asked(coolify, looked_before=timedelta(seconds=1)) is False
    # The budget is needed for other calls.
    with monkeypatch.context() as tight:
        tight.setattr(ends, "pressure", lambda: 1.0)
        assert asked(coolify) is False
    # It is known to have ended, and its container is awaited.
    Deployment.objects.update(coolify_ended_at=Now())
    assert asked(coolify) is False
    assert coolify.calls == 0


def test_no_answer_is_no_end():
    coolify = Deployments()
    coolify.error = Unavailable("away")
    assert asked(coolify) is False
