"""What the overview asks an operator to do next."""

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


def test_a_pool_at_its_maximum_may_be_made_larger():
    two_slots()
    assert advice() == [
        (
            "Zoom: 1 waiting, and the pool is at its maximum",
            "Raise the size of the pool if the server can bear it.",
        )
    ]


def test_where_slots_are_cordoned_a_larger_pool_is_not_the_answer():
    two_slots(cordoned=True)
    assert advice() == [
        ("Zoom: 1 waiting, and 2 of 2 slots cordoned", "Uncordon those that are fit for use.")
    ]


def test_where_slots_are_in_error_these_come_first():
    two_slots(status="error", previous_status="deploying", error="Coolify refused")
    assert advice() == [
        ("Zoom: 2 slots in error", "Read the cause, then retry or recreate."),
        ("Zoom: 1 waiting, and 2 of 2 slots in error", "Bring these back first."),
    ]
