import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bots.models import Bot
from bots.status import Platform
from pool import request as request_module
from pool.steering import fit_pools
from queues.models import QueueEntry
from slots.deployment import WarmImage
from tests.concurrency import at_once
from tests.factories import SlotFactory
from tests.invariants import broken_rules
from tests.queued import ask, leave, line, pool_of, status_of

pytestmark = pytest.mark.django_db(transaction=True)


def statements_of(act):
    with CaptureQueriesContext(connection) as queries:
        act()
    sql = [query["sql"] for query in queries]
    within = sql[sql.index("BEGIN") + 1 : sql.index("COMMIT")]
    return [s for s in within if "SAVEPOINT" not in s]


def test_it_gets_an_idle_slot_at_once():
    slot = SlotFactory()
    bot = ask(priority=7, display_name="Notes", config={"language": "en"})
    assert (bot.status, bot.slot_name, bot.slot.pk) == ("DEPLOYING", slot.name, slot.pk)
    stored = Bot.objects.get()
    assert (stored.status, stored.placements, stored.priority) == ("DEPLOYING", 1, 7)
    assert (stored.display_name, stored.config) == ("Notes", {"language": "en"})
    assert (bot.placements, bot.coolify_service_uuid) == (1, stored.coolify_service_uuid)
    assert broken_rules() == []


def test_it_gets_a_new_slot_while_the_pool_may_grow():
    assert ask().slot_name == "pool-google-meet-001"


def test_it_waits_in_line_when_every_slot_is_taken(settings):
    pool_of(settings, 1)
    ask()
    bot = ask(queue_timeout=timedelta(seconds=90), config={"language": "en"})
    assert (bot.status, bot.slot_name, bot.config) == ("QUEUED", "", {"language": "en"})
    assert bot.queued_at is not None
    entry = QueueEntry.objects.get(bot=bot)
    assert (entry.platform, entry.priority, entry.queued_at) == (
        "google-meet",
        100,
        bot.created_at,
    )
    assert timedelta(seconds=89) < entry.timeout_at - entry.queued_at < timedelta(seconds=100)
    assert broken_rules() == []


@pytest.mark.parametrize("size", [0, 1])
def test_what_it_returns_is_what_is_stored(settings, size):
    pool_of(settings, size)
    bot = ask()
    stored = Bot.objects.get()
    for field in Bot._meta.concrete_fields:
        assert getattr(bot, field.attname) == getattr(stored, field.attname), field.name


def test_its_history_begins_with_the_request_and_says_why_it_waits(settings):
    pool_of(settings, 0)
    history = ask(correlation_id="c-5").events.order_by("id")
    assert [(e.from_status, e.to_status, e.reason) for e in history] == [
        ("", "PENDING", "Bot requested"),
        ("PENDING", "QUEUED", "Every slot is taken"),
    ]
    assert {(e.actor, e.correlation_id) for e in history} == {("test", "c-5")}


def test_it_has_a_correlation_id_of_its_own_if_none_is_given():
    assert ask().correlation_id != ask().correlation_id


def test_the_queue_timeout_is_the_one_of_the_settings_unless_given(settings):
    settings.DEFAULT_QUEUE_TIMEOUT = timedelta(seconds=42)
    assert ask().queue_timeout == timedelta(seconds=42)


def test_an_idle_slot_costs_eight_statements(settings):
    slot = SlotFactory()
    WarmImage.objects.create(image=settings.BOT_IMAGES[slot.platform], server_uuid=slot.server_uuid)
    fit_pools()
    assert len(statements_of(ask)) == 8


def test_a_new_slot_costs_24_statements():
    fit_pools()
    assert len(statements_of(ask)) == 24


def test_a_place_in_line_costs_nine_statements(settings):
    pool_of(settings, 0)
    fit_pools()
    assert len(statements_of(ask)) == 9


def test_a_newcomer_does_not_overtake_a_waiter_although_a_slot_is_idle(settings):
    pool_of(settings, 0)
    waiter = ask()
    SlotFactory()
    newcomer = ask()
    # The drain after the newcomer's commit gave the slot to the bot whose turn it was.
    assert (status_of(waiter), newcomer.status) == ("DEPLOYING", "QUEUED")


def test_a_newcomer_of_better_priority_goes_ahead(settings):
    pool_of(settings, 0)
    waiter = ask(priority=100)
    SlotFactory()
    newcomer = ask(priority=10)
    assert (status_of(waiter), newcomer.status) == ("QUEUED", "DEPLOYING")


def test_a_newcomer_of_better_priority_does_not_overtake_one_who_has_aged(settings):
    pool_of(settings, 0)
    settings.QUEUE_AGEING = timedelta(microseconds=1)
    waiter = ask(priority=100)
    SlotFactory()
    newcomer = ask(priority=0)
    assert (status_of(waiter), newcomer.status) == ("DEPLOYING", "QUEUED")


def test_a_waiter_of_another_platform_holds_up_no_newcomer(settings):
    pool_of(settings, 1, Platform.ZOOM)
    waiter = ask()
    assert ask(Platform.ZOOM).status == "DEPLOYING"
    assert status_of(waiter) == "QUEUED"


def test_an_expired_waiter_holds_up_no_newcomer(settings):
    pool_of(settings, 0)
    ask(queue_timeout=timedelta(microseconds=1))
    SlotFactory()
    assert ask().status == "DEPLOYING"


def a_waiter_joins_and_a_slot_comes_free_while_a_newcomer_is_on_its_way(settings, monkeypatch):
    """The newcomer has checked the line, and is held up before it claims a slot."""
    pool_of(settings, 1)
    holder = ask()
    checked, go_on = threading.Event(), threading.Event()
    place = request_module.assign_bot_to_slot

    def held_up(bot, **why):
        if threading.current_thread() is not threading.main_thread() and not checked.is_set():
            checked.set()
            assert go_on.wait(60)
        return place(bot, **why)

    def others():
        assert checked.wait(60)
        waiter = ask(priority=99)
        # Free the slot without a drain: the newcomer is the first to find it.
        monkeypatch.setattr("pool.drain.drain", lambda platform: None)
        leave(holder)
        go_on.set()
        return waiter

    monkeypatch.setattr(request_module, "assign_bot_to_slot", held_up)
    return at_once([ask, others])


def test_a_newcomer_that_was_held_up_does_not_overtake(settings, monkeypatch):
    newcomer, waiter = a_waiter_joins_and_a_slot_comes_free_while_a_newcomer_is_on_its_way(
        settings, monkeypatch
    )
    assert line() == [waiter, newcomer]


def test_without_the_second_check_a_newcomer_overtakes(settings, monkeypatch):
    monkeypatch.setattr(request_module, "has_others_first", lambda bot: False)
    newcomer, waiter = a_waiter_joins_and_a_slot_comes_free_while_a_newcomer_is_on_its_way(
        settings, monkeypatch
    )
    assert (status_of(newcomer), status_of(waiter)) == ("DEPLOYING", "QUEUED")


def test_forty_requests_at_once_fill_the_pool_and_the_line(settings):
    pool_of(settings, 10)
    bots = at_once([ask] * 40)
    assert sorted(bot.status for bot in bots) == ["DEPLOYING"] * 10 + ["QUEUED"] * 30
    assert broken_rules() == []
