"""How many SQL statements a request for a bot costs, without those of its transaction."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from api.positions import find_place, queue_fields
from bots.models import Bot, Client
from pool.request import NO_SLOT
from pool.steering import fit_pools
from slots.deployment import WarmImage
from tests.api.conftest import MEETING
from tests.factories import SlotFactory
from tests.queued import ask, leave, pool_of

pytestmark = pytest.mark.django_db(transaction=True)

TRANSACTION = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


@pytest.fixture(autouse=True)
def _fitted():
    fit_pools()


def round_trips(api):
    with CaptureQueriesContext(connection) as made:
        assert api.post("bots", {"meetingUrl": MEETING}).status_code == 201
    return sum(not query["sql"].startswith(TRANSACTION) for query in made.captured_queries)


def test_an_idle_slot_costs_at_most_ten(client_api, settings):
    slot = SlotFactory()
    WarmImage.objects.create(image=settings.BOT_IMAGES[slot.platform], server_uuid=slot.server_uuid)
    assert round_trips(client_api) <= 10


def test_a_new_slot_costs_at_most_26(client_api):
    assert round_trips(client_api) <= 26


def test_a_place_in_the_queue_costs_at_most_fifteen(client_api, settings):
    pool_of(settings, 1)
    client = Client.objects.get()
    for _ in range(3):
        ask(client_id=client.pk)
    assert round_trips(client_api) <= 15


# --- The response is still up to date ----------------------------------------------------------


def test_a_bot_that_the_drain_placed_is_shown_with_its_slot(client_api, settings, monkeypatch):
    pool_of(settings, 1)
    SlotFactory(number=1)
    # As if the slot became free between the check of the pool and the commit.
    monkeypatch.setattr("pool.request._place", lambda bot, **why: NO_SLOT)
    answer = client_api.post("bots", {"meetingUrl": MEETING}).json()
    assert (answer["bot"]["status"], answer["bot"]["slotName"]) == (
        "DEPLOYING",
        "pool-google-meet-001",
    )
    assert "queuePosition" not in answer


def test_a_bot_that_was_placed_since_it_was_read_is_read_again(settings):
    pool_of(settings, 1)
    holder = ask()
    waiter = ask()
    stale = Bot.objects.get(pk=waiter.pk)
    leave(holder)
    assert queue_fields(find_place(stale)) == {}
    assert stale.status == "DEPLOYING"
