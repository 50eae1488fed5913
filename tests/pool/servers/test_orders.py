"""Cordon, drain, maintenance and return, from every side; bad orders change nothing."""

import logging
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.utils import timezone as clock

from pool.servers import orders
from pool.servers.moves import move_idle_slots
from pool.servers.orders import (
    OrderRefused,
    UnlikelyTime,
    cordon_server,
    drain_server,
    find_server,
    plan_maintenance,
    return_server,
)
from pool.servers.overview import overview_of
from pool.servers.states import refresh_servers
from servers.models import Server
from slots.models import Slot
from tests.concurrency import at_once, then_meet
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

WHO = {"reason": "New disk", "actor": "anna"}


@pytest.fixture(autouse=True)
def servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    refresh_servers()
    Server.objects.filter(uuid="a").update(name="bots-1")


def server(uuid: str = "a") -> Server:
    return Server.objects.get(uuid=uuid)


def busy_slot(**fields) -> Slot:
    bot = BotFactory(status="IN_CALL", previous_status="JOINING_CALL")
    return SlotFactory(
        status="busy",
        previous_status="deploying",
        assigned_bot=bot,
        last_assigned_at=Now() - timedelta(minutes=10),
        **fields,
    )


def test_a_drained_server_says_what_is_left_and_is_empty_in_the_end():
    idle, busy = SlotFactory(server_uuid="a"), busy_slot(server_uuid="a")
    drain_server(server(), **WHO)
    assert server().state == "draining"
    Slot.objects.filter(pk=idle.pk).update(
        status="idle", previous_status="stopping", coolify_uuid="", recreate=False
    )
    overview = overview_of(server())
    assert overview.progress.startswith("1 meeting (the longest expected to end at ")
    assert overview.last_meeting_ends_at > clock.now()
    busy.delete()
    assert overview_of(server()).progress == "Empty: it can be taken down."
    assert return_server(server(), **WHO)
    assert (server().state, overview_of(server()).progress) == ("healthy", "")


def test_a_cordoned_server_keeps_its_slots():
    slot = SlotFactory(server_uuid="a")
    cordon_server(server(), **WHO)
    slot.refresh_from_db()
    assert (server().state, slot.status) == ("cordoned", "idle")
    assert server().state_reason == "anna: New disk"


def test_an_order_ends_at_its_time():
    drain_server(server(), until=clock.now() + timedelta(hours=1), **WHO)
    Server.objects.filter(uuid="a").update(order_until=Now())
    refresh_servers()
    assert (server().state, server().order) == ("healthy", "")


def test_a_server_drains_before_its_maintenance_and_returns_after_it(settings):
    settings.MAINTENANCE_LEAD = timedelta(hours=1)
    slot = SlotFactory(server_uuid="a")
    begins = clock.now() + timedelta(hours=2)
    plan_maintenance(server(), begins=begins, ends=begins + timedelta(hours=1), **WHO)
    assert server().state == "healthy"
    Server.objects.filter(uuid="a").update(window_from=Now() + timedelta(minutes=50))
    refresh_servers()
    move_idle_slots()
    slot.refresh_from_db()
    assert (server().state, slot.status) == ("draining", "stopping")
    Server.objects.filter(uuid="a").update(
        window_from=Now() - timedelta(hours=2), window_until=Now()
    )
    refresh_servers()
    assert (server().state, server().window_from) == ("healthy", None)


# Orders that make no sense


def refused(give, *args, **fields) -> str:
    before = list(Server.objects.order_by("uuid").values())
    with pytest.raises(OrderRefused) as error:
        give(*args, **{**WHO, **fields})
    assert list(Server.objects.order_by("uuid").values()) == before
    return str(error.value)


@pytest.mark.parametrize("give", [cordon_server, drain_server])
def test_the_last_server_in_service_stays(give):
    cordon_server(server("b"), **WHO)
    assert "last server in service" in refused(give, server("a"))


def test_a_server_that_is_away_does_not_count_as_another_one():
    Server.objects.filter(uuid="b").update(state="unreachable")
    assert "last server" in refused(drain_server, server("a"))


def two_operators_drain_both_servers(monkeypatch) -> list[str]:
    """Both look at the servers before one of them changes any, unless a lock prevents that."""
    monkeypatch.setattr(orders, "_refuse_last", then_meet(orders._refuse_last))
    results = at_once([lambda uuid=uuid: drain_server(server(uuid), **WHO) for uuid in ("a", "b")])
    return sorted(type(each).__name__ for each in results)


def test_two_operators_cannot_take_out_both_servers(monkeypatch):
    assert two_operators_drain_both_servers(monkeypatch) == ["NoneType", "OrderRefused"]


def test_without_the_lock_two_operators_take_out_both_servers(monkeypatch):
    monkeypatch.setattr(orders, "advisory_lock", lambda name: None)
    assert two_operators_drain_both_servers(monkeypatch) == ["NoneType", "NoneType"]


def test_a_window_that_ends_before_it_begins_is_refused():
    now = clock.now()
    window = {"begins": now + timedelta(hours=2), "ends": now + timedelta(hours=1)}
    assert "must end after it begins" in refused(plan_maintenance, server(), **window)
    past = {"begins": now - timedelta(hours=2), "ends": now - timedelta(hours=1)}
    assert "already over" in refused(plan_maintenance, server(), **past)


def test_an_end_in_the_past_is_refused():
    assert "future" in refused(drain_server, server(), until=clock.now())


# PostgreSQL stores what these are in UTC, years before 1 and after 9999, and Python cannot read it.
EASTERN, WESTERN = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
FIRST = datetime(1, 1, 1, tzinfo=EASTERN)
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=WESTERN)


@pytest.mark.parametrize("give", [cordon_server, drain_server])
def test_an_end_that_no_one_will_see_is_refused(give):
    assert "more than 20 years from now" in refused(give, server(), until=LAST)
    assert "more than 20 years" in refused(give, server(), until=LAST.replace(tzinfo=UTC))
    assert "must be in the future" in refused(give, server(), until=FIRST)


def test_a_window_at_the_edges_of_the_calendar_is_refused():
    now = clock.now()
    assert "more than a year ago" in refused(plan_maintenance, server(), begins=FIRST, ends=LAST)
    late = {"begins": now, "ends": LAST}
    assert "more than 20 years from now" in refused(plan_maintenance, server(), **late)
    early = {"begins": FIRST, "ends": now + timedelta(hours=1)}
    assert "more than a year ago" in refused(plan_maintenance, server(), **early)


def test_a_refused_time_says_which_one_it_is():
    with pytest.raises(UnlikelyTime) as error:
        plan_maintenance(server(), begins=clock.now(), ends=LAST, **WHO)
    assert error.value.field == "ends"


def test_a_window_that_has_begun_can_be_prolonged():
    begins = clock.now() - timedelta(days=300)
    plan_maintenance(server(), begins=begins, ends=clock.now() + timedelta(days=300), **WHO)
    assert (server().state, server().window_from) == ("draining", begins)


def test_a_window_in_another_zone_is_logged_in_utc(caplog):
    caplog.set_level(logging.INFO)
    begins = datetime(2040, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    plan_maintenance(server(), begins=begins, ends=begins + timedelta(hours=1), **WHO)
    assert "maintenance 2040-01-01 00:00 UTC" in caplog.text


def test_an_unknown_server_is_refused_with_the_known_ones():
    with pytest.raises(OrderRefused, match=r"no server 'c'.*b, bots-1"):
        find_server("c")
    assert find_server("bots-1").uuid == find_server("a").uuid == "a"


# The command


def test_the_command_drains_and_returns(capsys):
    call_command("drain_server", "bots-1", "--until", "2040-01-01T00:00Z", "--reason", "Disk")
    assert "bots-1 drains until 2040-01-01 00:00 UTC" in capsys.readouterr().out
    assert (server().order, server().order_reason) == ("draining", "Disk")
    call_command("drain_server", "a", "--undo")
    assert "in service again" in capsys.readouterr().out
    call_command("drain_server", "a", "--undo")
    assert "nothing to undo" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "no server 'nothing'"),
        (["a", "--until", "tomorrow"], "not a time such as"),
        (["a", "--until", "2020-01-01T00:00Z"], "must be in the future"),
        (["a", "--until", "9999-12-31T23:59:59-14:00"], "20 years from now. Nothing was changed"),
        (["a", "--until", "0001-01-01T00:00:00+14:00"], "must be in the future"),
        (["a", "--until", "2040-01-01T00:00Z", "--undo"], "exclude each other"),
    ],
)
def test_the_command_refuses_bad_input_and_changes_nothing(arguments, words):
    with pytest.raises(CommandError, match=words):
        call_command("drain_server", *arguments)
    assert server().order == ""
