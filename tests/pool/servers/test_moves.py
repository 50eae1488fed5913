"""Slots that leave servers which drain or were removed, and that move to a new one."""

import pytest
from django.utils import timezone

from pool.request import BotRequest, request_bot
from pool.servers.moves import move_idle_slots
from pool.servers.states import refresh_servers
from servers.models import Server
from slots.models import Slot
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 4}
    refresh_servers()


def moved() -> list[str]:
    return sorted(slot.name for slot in move_idle_slots())


def busy(**fields) -> Slot:
    bot = BotFactory(status="IN_CALL", previous_status="JOINING_CALL")
    return SlotFactory(status="busy", previous_status="deploying", assigned_bot=bot, **fields)


def test_a_slot_whose_application_may_exist_on_a_removed_server_is_used_elsewhere(settings):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 1}
    settings.COOLIFY_SERVER_UUIDS = ["b"]
    Server.objects.filter(uuid="a").update(state="removed")
    SlotFactory(server_uuid="a", coolify_uuid="", application_asked_at=timezone.now())
    assert moved() == []
    request = BotRequest(meeting_url="https://meet.google.com/abc-defg-hij", platform="google-meet")
    assert request_bot(request, actor="test").slot.server_uuid == "b"


def test_idle_slots_leave_a_draining_server_and_busy_ones_stay():
    idle, held = SlotFactory(server_uuid="a"), busy(server_uuid="a")
    SlotFactory(server_uuid="b")
    Server.objects.filter(uuid="a").update(order="draining", order_by="anna", order_reason="Disk")
    refresh_servers()
    assert moved() == [idle.name]
    idle.refresh_from_db()
    held.refresh_from_db()
    assert (idle.status, idle.recreate, held.status) == ("stopping", True, "busy")
    assert "is draining: anna: Disk" in idle.status_reason


def test_slots_of_a_removed_server_leave_it(settings):
    slot = SlotFactory(server_uuid="a")
    settings.COOLIFY_SERVER_UUIDS = ["b"]
    refresh_servers()
    assert moved() == [slot.name]


def test_slots_stay_on_a_cordoned_server():
    SlotFactory(server_uuid="a")
    Server.objects.filter(uuid="a").update(order="cordoned")
    refresh_servers()
    assert moved() == []


def test_a_full_pool_gives_some_of_its_idle_slots_to_a_new_server(settings):
    slots = [SlotFactory(server_uuid="a", number=n) for n in range(1, 5)]
    assert moved() == [slots[0].name]
    Slot.objects.filter(pk=slots[0].pk).update(
        status="idle", previous_status="stopping", recreate=False, coolify_uuid=""
    )
    # Its row is free for the new server: now the pool can grow there.
    assert moved() == []


def test_an_even_pool_stays_as_it_is():
    for number in range(1, 5):
        SlotFactory(server_uuid="ab"[number % 2], number=number)
    assert moved() == []
