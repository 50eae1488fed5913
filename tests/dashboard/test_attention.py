"""The next steps that the overview suggests."""

import pytest

from bots.status import Platform
from dashboard.overview.attention import what_needs_attention
from dashboard.overview.cards import cards
from tests.factories import QueueEntryFactory, SlotFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _full_pool(settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(Platform, 2)
    QueueEntryFactory(bot__platform=Platform.ZOOM)


def advice() -> list[tuple[str, str]]:
    return [(each.words, each.next_step) for each in what_needs_attention(cards=cards(), health=[])]


def two_slots(**fields) -> None:
    SlotFactory.create_batch(2, platform=Platform.ZOOM, **fields)


def test_a_full_pool_can_be_made_larger():
    two_slots()
    assert advice() == [
        (
            "Zoom: 1 waiting, pool at its maximum size",
            "Increase the pool size if the servers have room.",
        )
    ]


def test_cordoned_slots_come_before_a_larger_pool():
    two_slots(cordoned=True)
    assert advice() == [
        ("Zoom: 1 waiting, 2 of 2 slots cordoned", "Uncordon the slots that can be used.")
    ]


def test_slots_in_error_come_before_a_larger_pool():
    two_slots(status="error", previous_status="deploying", error="Coolify refused")
    assert advice() == [
        ("Zoom: 2 slots in error", "Read the cause, then retry or recreate."),
        ("Zoom: 1 waiting, 2 of 2 slots in error", "Retry or recreate these first."),
    ]
