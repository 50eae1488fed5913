"""What follows for the pool from what a running Coolify was observed to do."""

from datetime import timedelta

import pytest
from django.utils import timezone

from coolify.client.resources import Application
from pool.controller.observe import Snapshot
from pool.reconciler.container_checks import wrong_containers
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db

# How long Coolify calls a container degraded that exited after restarts.
DEGRADED_FOR = timedelta(seconds=30)
# The workers of Coolify write statuses, too: while all are busy, a status was this late.
LATE_BY = timedelta(seconds=35)


@pytest.mark.parametrize("hearing", [True, False])
@pytest.mark.parametrize("status", ["degraded:unhealthy", "exited:unhealthy"])
def test_a_bot_outlasts_a_status_that_is_wrong_for_a_while(status, hearing):
    bot = BotFactory(status="IN_CALL", previous_status="JOINING_CALL")
    slot = SlotFactory(status="busy", previous_status="deploying", assigned_bot=bot)
    shown = Application.parse({"uuid": slot.coolify_uuid, "status": status})
    now = timezone.now()
    snapshot = Snapshot(now, {slot.coolify_uuid: shown}, {}, {})
    since = now if hearing else None
    [found] = wrong_containers(snapshot, None, hearing_since=since)
    shortest = min(found.lasting, found.proof.lasting if found.proof else found.lasting)
    assert (found.kind, found.times) == ("container_gone", 2)
    assert shortest > DEGRADED_FOR + LATE_BY


def test_a_container_that_is_still_shown_as_running_is_not_missed_by_its_status():
    """The last container on a server without proxy stays `running` after it is gone: only the
    silence of its bot tells."""
    bot = BotFactory(status="IN_CALL", previous_status="JOINING_CALL")
    slot = SlotFactory(status="busy", previous_status="deploying", assigned_bot=bot)
    shown = Application.parse({"uuid": slot.coolify_uuid, "status": "running:unknown"})
    snapshot = Snapshot(timezone.now(), {slot.coolify_uuid: shown}, {}, {})
    assert list(wrong_containers(snapshot, None, hearing_since=timezone.now())) == []
