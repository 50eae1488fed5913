"""Which slot and which server a bot gets, by the states of the servers."""

import pytest

from bots.status import BotStatus
from pool.assign import assign_bot_to_slot
from pool.capacity import has_opening
from servers.models import Server
from slots.deployment import WarmImage
from slots.models import Slot
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def three_servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b", "c"]


def assign() -> Slot | None:
    return assign_bot_to_slot(BotFactory(), reason="test", actor="test")


def put(state: str, *servers: str) -> None:
    for uuid in servers:
        Server.objects.update_or_create(uuid=uuid, defaults={"state": state})


def warm(server: str, settings) -> None:
    WarmImage.objects.create(image=settings.BOT_IMAGES["google-meet"], server_uuid=server)


@pytest.mark.parametrize("state", ["unreachable", "cordoned", "draining", "removed"])
def test_no_bot_gets_a_slot_on_a_server_that_is_out_of_service(state):
    SlotFactory(server_uuid="a")
    put(state, "a", "b")
    assert assign().server_uuid == "c"
    assert Slot.objects.get(server_uuid="a").status == "idle"


def test_a_bot_waits_while_no_server_takes_bots():
    SlotFactory(server_uuid="a")
    put("unreachable", "a", "b", "c")
    assert assign() is None
    assert not has_opening("google-meet")


def test_idle_slots_with_the_image_come_first(settings):
    cold, ready = SlotFactory(server_uuid="a"), SlotFactory(server_uuid="b")
    warm("b", settings)
    assert assign() == ready
    assert assign() == cold


def test_an_idle_slot_on_a_degraded_server_comes_last(settings):
    SlotFactory(server_uuid="a", number=1)
    other = SlotFactory(server_uuid="b", number=2)
    warm("a", settings)
    put("degraded", "a")
    assert assign() == other
    assert assign().server_uuid == "a"


def test_an_idle_slot_whose_application_is_not_listed_comes_last(settings):
    """It may have been deleted by hand. If many are, that is not even believed, and the bot would
    wait for an operator."""
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 3}
    missing = SlotFactory(server_uuid="a", number=1, application_missing=True)
    on_degraded = SlotFactory(server_uuid="b", number=2)
    warm("a", settings)
    put("degraded", "b")
    assert assign() == on_degraded
    assert assign().number == 3  # a new one
    assert assign() == missing
    assert assign() is None


def test_new_slots_are_spread_over_the_servers():
    assert [assign().server_uuid for _ in range(4)] == ["a", "b", "c", "a"]


def test_a_server_has_at_most_its_number_of_slots(settings):
    settings.MAX_SLOTS_PER_SERVER = 1
    SlotFactory(server_uuid="a", platform="zoom")
    assert [assign().server_uuid for _ in range(2)] == ["b", "c"]
    assert assign() is None


def test_a_slot_without_an_application_is_placed_anew(settings):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 1}
    SlotFactory(server_uuid="a", coolify_uuid="")
    put("removed", "a")
    assert assign().server_uuid == "b"
    assert assign() is None


def test_a_slot_whose_new_application_may_exist_stays_on_its_server():
    """After a lost answer, the application is searched for by its name and adopted."""
    asked = SlotFactory(server_uuid="a", coolify_uuid="", application_asked_at="2026-01-01T00:00Z")
    assert assign().server_uuid == "a"
    asked.refresh_from_db()
    assert asked.assigned_bot.status == BotStatus.DEPLOYING
