"""When a pre-pull may begin, and that it never pulls beside a bot."""

from datetime import timedelta
from functools import partial

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from pool.capacity import server_for_new_slot
from pool.controller.images import choose_leaders, lead, let_warm_ones_through
from pool.images.prepulls import (
    NoImage,
    ask_prepull,
    begin_prepull,
    cancel_prepull,
    end_late_ones,
    end_prepull,
    give_turns,
)
from pool.servers.overview import server_overviews
from servers.models import Server
from slots.deployment import WarmImage
from slots.images import Prepull, PrepullStatus
from tests.concurrency import at_once
from tests.factories import DeploymentFactory

pytestmark = pytest.mark.django_db(transaction=True)

IMAGE = "bot:1.1"


@pytest.fixture(autouse=True)
def no_clean_up(settings):
    settings.IMAGE_CLEANUP_TIMES = []


def ask(server: str = "server-1", image: str = IMAGE) -> Prepull:
    return ask_prepull(image=image, server_uuid=server, actor="test", reason="New release")


def detail() -> str:
    return Prepull.objects.order_by("pk").last().detail


def test_a_pre_pull_of_a_cold_image_begins():
    prepull = ask()
    assert give_turns() == [prepull]
    prepull.refresh_from_db()
    assert (prepull.status, prepull.pulling) == ("starting", True)
    assert prepull.deadline > prepull.status_since


def test_the_same_image_is_asked_for_once():
    assert ask() == ask()
    assert ask("server-2") != ask()


@pytest.mark.parametrize("image", ["", "bot", "Bot:1", "bot:1 ", "bot:1;rm", "a" * 300 + ":1"])
def test_a_name_that_is_no_image_is_refused(image):
    with pytest.raises(NoImage):
        ask(image=image)
    assert not Prepull.objects.exists()


def test_an_image_that_is_there_is_not_pulled_again():
    WarmImage.objects.create(image=IMAGE, server_uuid="server-1")
    ask()
    assert give_turns() == []
    assert Prepull.objects.get().status == "done"


def test_one_server_at_a_time_pulls_an_image():
    first, second = ask("server-1"), ask("server-2")
    assert give_turns() == [first]
    end_prepull(first, PrepullStatus.DONE, "There")
    assert give_turns() == [second]


def test_a_server_that_went_away_holds_up_no_other():
    ask("server-1")
    give_turns()
    Server.objects.create(uuid="server-1", state="unreachable")
    second = ask("server-2")
    assert give_turns() == [second]


def test_a_server_pulls_one_image_at_a_time():
    first = ask()
    ask(image="bot:1.2")
    assert give_turns() == [first]


@pytest.mark.parametrize("state", ["unreachable", "cordoned", "draining", "removed"])
def test_a_server_out_of_service_pulls_nothing(state):
    Server.objects.create(uuid="server-1", state=state)
    ask()
    assert give_turns() == []
    assert state in detail()


@pytest.mark.parametrize("status", ["waiting_for_image", "waiting_for_place"])
def test_a_bot_that_waits_for_a_build_place_comes_first(status):
    DeploymentFactory(status=status)
    ask()
    assert give_turns() == []
    assert "build place" in detail()


@pytest.mark.parametrize(("places", "begins"), [(1, False), (2, False), (3, True)])
def test_the_last_build_place_is_left_to_bots(places, begins):
    Server.objects.create(uuid="server-1", concurrent_builds=places)
    DeploymentFactory(status="in_progress", start_asked_at=Now())
    ask()
    assert bool(give_turns()) == begins


def test_an_image_that_a_bot_pulls_is_not_pulled_beside_it():
    Server.objects.create(uuid="server-1", concurrent_builds=9)
    DeploymentFactory(
        image=IMAGE, status="in_progress", leader=True, pulling=True, start_asked_at=Now()
    )
    ask()
    assert give_turns() == []
    assert "under way" in detail()


def test_bots_wait_for_a_pre_pull_of_their_image():
    prepull = ask(image="bot:1")
    give_turns()
    DeploymentFactory()
    assert (let_warm_ones_through(), choose_leaders()) == ([], 0)
    # Even if it was cancelled: Coolify may pull on for a moment.
    cancel_prepull(prepull, actor="anna", reason="Wrong tag")
    assert choose_leaders() == 0
    Prepull.objects.update(pulling=False)
    assert choose_leaders() == 1


def test_a_bot_and_a_pre_pull_that_begin_at_once_pull_once():
    for round in range(15):
        image = f"bot:1.{round}"
        start, prepull = DeploymentFactory(image=image), ask(image=image)
        began = at_once([partial(lead, start), partial(begin_prepull, prepull)])
        assert sorted(began) == [False, True]


def test_a_pre_pull_that_cannot_begin_is_given_up():
    Server.objects.create(uuid="server-1", state="cordoned")
    ask()
    give_turns()
    Prepull.objects.update(deadline=Now() - timedelta(seconds=1))
    end_late_ones()
    prepull = Prepull.objects.get()
    assert prepull.status == "given_up" and "cordoned" in prepull.detail


def test_a_pre_pull_waits_on_while_other_servers_get_the_image():
    Server.objects.create(uuid="server-1", state="cordoned")
    ask()
    end_prepull(ask("server-2"), PrepullStatus.DONE, "There")
    Prepull.objects.update(deadline=Now() - timedelta(seconds=1))
    end_late_ones()
    assert Prepull.objects.get(server_uuid="server-1").status == "waiting"


def test_around_a_clean_up_nothing_is_pulled(settings):
    now = timezone.now()
    settings.IMAGE_CLEANUP_TIMES = [timedelta(hours=now.hour, minutes=now.minute)]
    ask()
    assert give_turns() == []
    assert "clean-up" in detail()


def test_a_pre_pull_takes_a_build_place(settings):
    settings.COOLIFY_SERVER_UUIDS = ["server-1", "server-2"]
    for uuid in settings.COOLIFY_SERVER_UUIDS:
        Server.objects.create(uuid=uuid, concurrent_builds=2)
    assert server_for_new_slot("google-meet") == "server-1"
    ask()
    give_turns()
    assert server_for_new_slot("google-meet") == "server-2"
    assert [each.builds for each in server_overviews()] == [1, 0]
