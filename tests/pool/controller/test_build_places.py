"""How many starts are sent to a server at once."""

import threading
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models.functions import Now

from coolify.client.resources import Server
from pool.controller import places
from pool.controller.places import give_places, take_turn
from pool.images.rollout import _use_it_in_line
from servers.reports import remember_servers
from slots.deployment import Deployment
from tests.concurrency import at_once
from tests.factories import DeploymentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def as_coolify_says(settings):
    settings.MAX_CONCURRENT_DEPLOYMENTS = 0


@pytest.fixture
def woken(monkeypatch):
    slots = set()
    monkeypatch.setattr(places, "wake_slots", slots.update)
    return slots


def waiting(count: int, *, server: str = "server-1") -> list[Deployment]:
    return DeploymentFactory.create_batch(
        count, status="waiting_for_place", slot__server_uuid=server
    )


def server(name: str, *, builds: int, queue: int) -> None:
    remember_servers([Server(name, concurrent_builds=builds, deployment_queue_limit=queue)])


def test_as_many_as_it_builds_and_as_many_again_to_keep_it_busy():
    server("server-1", builds=2, queue=25)
    waiting(10)
    assert len(give_places()) == 4


def test_those_ahead_never_fill_coolifys_own_queue():
    server("server-1", builds=60, queue=25)
    waiting(80)
    assert len(give_places()) == 60 + 12


def test_those_who_came_first_go_first():
    first, second, *_ = waiting(5)
    server("server-1", builds=1, queue=25)
    give_places()
    assert list(Deployment.objects.filter(status="starting").order_by("id")) == [first, second]


def test_a_place_is_given_again_only_when_it_is_free():
    server("server-1", builds=1, queue=25)
    waiting(5)
    assert (len(give_places()), give_places()) == (2, [])


def test_servers_do_not_take_each_others_places():
    server("server-1", builds=1, queue=25)
    server("server-2", builds=3, queue=25)
    waiting(10, server="server-1")
    waiting(10, server="server-2")
    give_places()
    started = Deployment.objects.filter(status="starting")
    assert started.filter(server_uuid="server-1").count() == 2
    assert started.filter(server_uuid="server-2").count() == 6


def test_a_hundred_full_servers_cost_no_more_queries_than_two(django_assert_num_queries):
    """A line-up for each event would else take longer than the events are apart."""
    names = [f"server-{number}" for number in range(100)]
    for name in names:
        server(name, builds=1, queue=25)
        waiting(3, server=name)
    give_places(names)
    with django_assert_num_queries(2):
        assert give_places(names[:2]) == []
    with django_assert_num_queries(2):
        assert give_places(names) == []


def test_a_bot_of_better_priority_goes_first():
    server("server-1", builds=1, queue=25)
    first, _, urgent = waiting(3)
    Deployment.objects.filter(pk=urgent.pk).update(turn=first.turn - timedelta(seconds=1))
    assert give_places() == [urgent.slot_id, first.slot_id]


def test_one_that_was_cancelled_meanwhile_gets_no_place_and_spoils_none(monkeypatch):
    server("server-1", builds=1, queue=25)
    cancelled, other = waiting(2)
    give = places._give_place

    def cancel_first(deployment):
        Deployment.objects.filter(pk=cancelled.pk).update(status="cancelled", ended_at=Now())
        return give(deployment)

    monkeypatch.setattr(places, "_give_place", cancel_first)
    assert give_places() == [other.slot_id]
    cancelled.refresh_from_db()
    assert cancelled.status == "cancelled"


def test_a_turn_is_taken_on_its_own_server_only():
    server("server-1", builds=1, queue=25)
    server("server-2", builds=1, queue=25)
    (here,), (there,) = waiting(1, server="server-1"), waiting(1, server="server-2")
    take_turn(here)
    here.refresh_from_db()
    there.refresh_from_db()
    assert (here.status, there.status) == ("starting", "waiting_for_place")


def test_a_turn_that_belongs_to_others_wakes_them(woken):
    server("server-1", builds=1, queue=25)
    first, second, late = waiting(3)
    take_turn(late)
    late.refresh_from_db()
    assert late.status == "waiting_for_place"
    assert woken == {first.slot_id, second.slot_id}


def test_a_turn_that_is_taken_wakes_no_slot_that_is_awake(woken):
    server("server-1", builds=1, queue=25)
    (only,) = waiting(1)
    take_turn(only)
    assert woken == set()


@pytest.mark.django_db(transaction=True)
def test_places_and_a_restored_image_do_not_deadlock(monkeypatch):
    """Both change the same starts, and each has one that the other waits for."""
    late, early = waiting(2)
    Deployment.objects.filter(pk=late.pk).update(turn=Now() + timedelta(hours=1))
    has_one, other_waits = threading.Event(), threading.Event()
    give_place = places._give_place

    def held_up(deployment):
        given = give_place(deployment)
        if not has_one.is_set():
            has_one.set()
            assert other_waits.wait(60)
        return given

    def use_another_image():
        assert has_one.wait(60)
        # Time enough for it to wait for what the other one holds.
        threading.Timer(0.7, other_waits.set).start()
        with transaction.atomic():
            _use_it_in_line("google-meet", "bot:2")

    monkeypatch.setattr(places, "_give_place", held_up)
    given, used = at_once([give_places, use_another_image])
    assert not isinstance(given, Exception), given
    assert not isinstance(used, Exception), used
    assert set(given) == {early.slot_id, late.slot_id}
