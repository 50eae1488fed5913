"""States of servers: from reports, results and the settings."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from bots.status import FailureCause
from coolify.client.resources import Server as ReportedServer
from pool.servers import states
from pool.servers.states import our_servers, refresh_servers
from servers.models import Server
from servers.reports import note_reachability, remember_servers
from slots.models import Deployment, Slot
from tests.factories import DeploymentFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def two_servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    remember_servers([ReportedServer("a", name="bots-1"), ReportedServer("b", name="bots-2")])


def state(uuid: str) -> str:
    refresh_servers()
    return Server.objects.get(uuid=uuid).state


@pytest.mark.parametrize("report", [{"is_reachable": False}, {"is_usable": False}])
def test_a_server_that_coolify_cannot_use_is_unreachable_until_it_is_back(report):
    remember_servers([ReportedServer("a", **report)])
    assert (state("a"), state("b")) == ("unreachable", "healthy")
    since = Server.objects.get(uuid="a").unreachable_since
    remember_servers([ReportedServer("a", **report)])
    assert Server.objects.get(uuid="a").unreachable_since == since
    remember_servers([ReportedServer("a", is_reachable=True, is_usable=True)])
    assert state("a") == "healthy"


def test_an_observation_reports_reachability_too():
    assert note_reachability({"a": False, "b": True}, at=timezone.now())
    assert not note_reachability({"a": False, "b": True}, at=timezone.now())
    assert state("a") == "unreachable"


def test_a_state_has_its_time_and_keeps_it():
    remember_servers([ReportedServer("a", is_reachable=False)])
    refresh_servers()
    first = Server.objects.get(uuid="a")
    refresh_servers()
    assert Server.objects.get(uuid="a").state_since == first.state_since
    assert first.state_reason == "Coolify cannot reach it"


def starts(server: str, *, failed: int = 0, finished: int = 0, **fields) -> None:
    for number in range(failed + finished):
        status = "failed" if number < failed else "finished"
        slot = SlotFactory(server_uuid=server)
        DeploymentFactory(
            slot=slot,
            bot_id=1,
            status=status,
            start_asked_at=Now() - timedelta(seconds=30),
            ended_at=Now(),
            **fields,
        )


def test_failed_starts_make_a_server_degraded():
    starts("a", failed=3, finished=1)
    starts("b", failed=1, finished=3)
    assert (state("a"), state("b")) == ("degraded", "healthy")
    Deployment.objects.update(ended_at=Now() - timedelta(hours=1))
    assert state("a") == "healthy"


def test_starts_that_moved_elsewhere_are_not_its_fault():
    starts("a", failed=5, failure_cause=FailureCause.SERVER_LOST)
    assert state("a") == "healthy"


def test_slow_starts_make_a_server_degraded(settings):
    settings.SERVER_SLOW_START = timedelta(seconds=10)
    starts("a", finished=3)
    starts("b", finished=3, leader=True)
    assert (state("a"), state("b")) == ("degraded", "healthy")


def test_a_server_that_is_no_longer_listed_is_removed_while_it_has_slots(settings):
    slot = SlotFactory(server_uuid="a")
    settings.COOLIFY_SERVER_UUIDS = ["b", "new"]
    assert state("a") == "removed"
    assert [server.uuid for server in our_servers()] == ["b", "new", "a"]
    Slot.objects.filter(pk=slot.pk).update(coolify_uuid="")
    assert [server.uuid for server in our_servers()] == ["b", "new"]


# One bad row


def test_a_window_from_the_first_day_on_is_judged():
    """An hour before that day there is none."""
    server = Server(uuid="a", window_from=datetime(1, 1, 1, tzinfo=UTC), window_by="anna")
    server.window_until = timezone.now() + timedelta(hours=1)
    assert states.current_order(server, timezone.now())[0] == "draining"


def test_a_server_that_cannot_be_judged_holds_up_no_other(monkeypatch, caplog):
    remember_servers([ReportedServer(each, is_reachable=False) for each in ("a", "b")])
    judged = states.current_order

    def current_order(server: Server, now: datetime) -> tuple[str, str]:
        if server.uuid == "a":
            raise OverflowError("date value out of range")
        return judged(server, now)

    monkeypatch.setattr(states, "current_order", current_order)
    assert (state("b"), state("a")) == ("unreachable", "healthy")
    [line, *_] = [each for each in caplog.records if "could not be judged" in each.getMessage()]
    assert "a could not be judged" in line.getMessage() and line.exc_info
