"""The size of a pool, and what a smaller size does to existing slots."""

import pytest
from django.db import IntegrityError

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus
from pool.controller.delete import delete_slot
from pool.drain import drain
from pool.lifecycle import confirm_slot_stopped, release_bot_from_slot
from pool.request import BotRequest, request_bot
from pool.steering import cordon_slot, fit_pools, set_pool_size, uncordon_slot
from slots.models import Pool, Slot, SlotTransition
from tests.concurrency import all_at_once
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

MEETING = "https://meet.google.com/abc-defg-hij"


def resize(size: int) -> bool:
    return set_pool_size("google-meet", size, reason="The server is small", actor="anna")


def make_slots(count: int, *, busy: tuple[int, ...] = ()) -> list[Slot]:
    return [
        SlotFactory(number=n, status="busy", previous_status="deploying", assigned_bot=in_call())
        if n in busy
        else SlotFactory(number=n)
        for n in range(1, count + 1)
    ]


def in_call() -> Bot:
    return BotFactory(status="IN_CALL", previous_status="JOINING_CALL")


def beyond() -> list[int]:
    slots = Slot.objects.filter(beyond_size=True, cordoned=True).order_by("number")
    return list(slots.values_list("number", flat=True))


def test_a_smaller_pool_takes_idle_slots_out_of_service_before_busy_ones():
    make_slots(5, busy=(4, 5))
    resize(3)
    assert beyond() == [2, 3]


def test_a_busy_slot_keeps_its_bot_when_even_the_busy_ones_are_too_many():
    make_slots(3, busy=(1, 2, 3))
    resize(1)
    assert beyond() == [2, 3]
    assert Slot.objects.filter(status="busy", assigned_bot__status="IN_CALL").count() == 3


def test_no_bot_gets_a_slot_beyond_the_size():
    make_slots(3)
    resize(1)
    request = BotRequest(meeting_url=MEETING, platform="google-meet")
    first, second = (request_bot(request, actor="test") for _ in range(2))
    assert first.slot.number == 1
    second.refresh_from_db()
    assert second.status == BotStatus.QUEUED


def test_a_slot_that_lost_its_application_is_used_in_spite_of_slots_beyond_the_size():
    make_slots(3)
    resize(1)
    Slot.objects.filter(number=1).update(coolify_uuid="")  # as after a recovery from an error
    request = BotRequest(meeting_url=MEETING, platform="google-meet")
    first, second = (request_bot(request, actor="test") for _ in range(2))
    assert first.slot.number == 1
    second.refresh_from_db()
    assert second.status == BotStatus.QUEUED


def test_a_larger_pool_takes_the_lowest_of_them_back_into_service():
    make_slots(4)
    resize(1)
    resize(3)
    assert beyond() == [4]
    assert Slot.objects.filter(cordoned=False).count() == 3


def test_a_slot_that_an_operator_has_cordoned_stays_so_when_the_pool_grows():
    first, *_ = make_slots(3)
    cordon_slot(first, reason="Broken", actor="anna")
    resize(1)
    resize(3)
    assert list(Slot.objects.filter(cordoned=True)) == [first]


def test_only_a_larger_size_brings_back_a_slot_beyond_it():
    make_slots(2)
    resize(1)
    assert not uncordon_slot(Slot.objects.get(number=2), reason="Needed", actor="anna")
    assert [slot.number for slot in Slot.objects.filter(beyond_size=True)] == [2]
    resize(2)
    assert not Slot.objects.filter(cordoned=True).exists()


def test_the_history_of_a_slot_says_why_it_went_out_of_service():
    make_slots(2)
    resize(1)
    line = SlotTransition.objects.get(slot__number=2)
    assert line.reason == "Cordoned, pool set to 1: The server is small"
    assert line.actor == "anna"


def test_the_same_size_again_changes_nothing():
    make_slots(2)
    resize(1)
    assert not resize(1)
    assert SlotTransition.objects.count() == 1


def test_the_database_refuses_a_slot_beyond_the_size_that_is_not_cordoned():
    [slot] = make_slots(1)
    with pytest.raises(IntegrityError, match="slot_beyond_the_size_is_cordoned"):
        Slot.objects.filter(pk=slot.pk).update(beyond_size=True)


class ObedientCoolify:
    def delete_application(self, uuid: str) -> None:
        pass


def test_when_a_slot_is_deleted_one_beyond_the_size_comes_back():
    first, _ = make_slots(2)
    resize(1)
    assert beyond() == [2]

    first.refresh_from_db()
    assert delete_slot(first, reason="Broken", actor="anna", coolify=ObedientCoolify())

    assert beyond() == []
    assert not Slot.objects.get().cordoned
    entry = SlotTransition.objects.latest("pk")
    assert entry.reason == "Uncordoned, pool-google-meet-001 was deleted"


def test_a_pool_without_a_size_of_its_own_is_left_alone_when_a_slot_is_deleted():
    first, second = make_slots(2)
    cordon_slot(second, reason="Disk", actor="anna")

    assert delete_slot(first, reason="Broken", actor="anna", coolify=ObedientCoolify())

    assert Slot.objects.get().cordoned


# --- The size in the environment -----------------------------------------------------------------


def ask_for(count: int) -> list[str]:
    request = BotRequest(meeting_url=MEETING, platform="google-meet")
    ids = [request_bot(request, actor="test").pk for _ in range(count)]
    return list(Bot.objects.filter(pk__in=ids).order_by("pk").values_list("status", flat=True))


@pytest.fixture
def environment(settings):
    def set_size(size: int) -> None:
        settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": size}

    return set_size


def test_with_a_size_of_zero_no_slot_is_handed_out(environment):
    make_slots(5)
    environment(0)
    assert ask_for(5) == ["QUEUED"] * 5
    assert beyond() == [1, 2, 3, 4, 5]


def test_a_lower_size_in_the_environment_takes_slots_out_of_service(environment):
    make_slots(5, busy=(4, 5))
    assert ask_for(1) == ["DEPLOYING"]
    environment(3)
    assert ask_for(1) == ["QUEUED"]
    assert beyond() == [2, 3]
    assert Slot.objects.filter(status="busy", assigned_bot__status="IN_CALL").count() == 2
    line = SlotTransition.objects.filter(slot__number=3).latest("pk")
    assert line.reason == "Cordoned, the pool's size is 3 (MAX_POOL_SIZE)"


def test_a_waiter_gets_no_slot_beyond_a_lower_size(environment):
    slots = make_slots(2)
    environment(0)
    assert ask_for(1) == ["QUEUED"]
    Slot.objects.update(cordoned=False, beyond_size=False)
    Pool.objects.update(fitted_size=2)
    assert drain("google-meet") == []
    assert beyond() == [slot.number for slot in slots]


def test_a_held_slot_beyond_the_size_finishes_its_meeting_and_gets_no_further_bot(environment):
    make_slots(1, busy=(1,))
    environment(0)
    fit_pools()
    slot = Slot.objects.get()
    assert (slot.status, slot.assigned_bot.status, slot.beyond_size) == ("busy", "IN_CALL", True)
    ended = Outcome(BotStatus.DONE, "Meeting over", "bot")
    assert release_bot_from_slot(slot, ended)
    confirm_slot_stopped(Slot.objects.get(), reason="The container is gone", actor="test")
    assert ask_for(1) == ["QUEUED"]


def test_a_larger_size_in_the_environment_brings_them_back_for_the_waiters(environment):
    make_slots(3)
    environment(0)
    assert ask_for(2) == ["QUEUED"] * 2
    environment(3)
    fit_pools()
    assert beyond() == []
    assert Bot.objects.filter(status="DEPLOYING").count() == 2


def test_what_an_operator_set_outweighs_the_environment(environment):
    make_slots(3)
    resize(3)
    environment(0)
    fit_pools()
    assert ask_for(1) == ["DEPLOYING"]
    assert beyond() == []


def test_a_pool_returns_to_the_size_of_the_environment(environment):
    make_slots(3)
    environment(2)
    resize(3)
    assert set_pool_size("google-meet", None, reason="The rush is over", actor="anna")
    assert Pool.objects.get(platform="google-meet").max_size is None
    assert beyond() == [3]
    assert not set_pool_size("google-meet", None, reason="Again", actor="anna")


def test_of_many_requests_at_once_none_gets_a_slot_beyond_a_lower_size(environment):
    make_slots(8)
    environment(3)
    all_at_once([lambda: ask_for(1)] * 8)
    assert Bot.objects.filter(status="DEPLOYING").count() == 3
    assert len(beyond()) == 5
