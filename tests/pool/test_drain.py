import json
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from pool import drain as drain_module
from pool.drain import drain, drain_all
from pool.lifecycle import end_bot, get_slot_for_bot, handle_slot_error
from pool.sharing.turns import waiting
from queues.models import QueueEntry
from tests.factories import SlotFactory
from tests.invariants import broken_rules
from tests.queued import ask, leave, line, many_wait, pool_of, served_in_order, status_of, statuses

pytestmark = pytest.mark.django_db(transaction=True)

MEET = Platform.GOOGLE_MEET


def test_a_slot_that_is_given_back_goes_to_the_next_in_line(settings):
    pool_of(settings, 1)
    holder, first, second = ask(), ask(), ask()
    leave(holder)
    assert statuses(first, second) == ["DEPLOYING", "QUEUED"]
    leave(first)
    assert status_of(second) == "DEPLOYING"
    assert not QueueEntry.objects.exists()


def test_the_order_is_priority_then_time(settings):
    pool_of(settings, 0)
    late, normal, equal, urgent = ask(priority=200), ask(), ask(), ask(priority=1)
    SlotFactory.create_batch(4)
    drain(MEET)
    assert served_in_order() == [urgent.pk, normal.pk, equal.pk, late.pk]


def test_no_waiter_is_served_without_a_slot(settings):
    pool_of(settings, 0)
    bot = ask()
    assert drain(MEET) == []
    assert status_of(bot) == "QUEUED"


def test_it_says_which_slots_it_gave(settings):
    pool_of(settings, 0)
    ask()
    slot = SlotFactory()
    assert drain(MEET) == [slot]


def test_a_drain_gives_out_every_free_slot(settings):
    pool_of(settings, 0)
    bots = [ask() for _ in range(25)]
    SlotFactory.create_batch(23)
    assert len(drain(MEET)) == 23
    assert line() == bots[23:]


def test_a_larger_pool_lets_waiters_in(settings):
    pool_of(settings, 0)
    ask()
    pool_of(settings, 1)
    assert [slot.name for slot in drain(MEET)] == ["pool-google-meet-001"]


def test_a_cordoned_slot_is_not_given_to_a_waiter(settings):
    pool_of(settings, 0)
    ask()
    SlotFactory(cordoned=True)
    assert drain(MEET) == []


def test_an_expired_waiter_gets_no_slot_although_no_sweep_has_seen_it(settings):
    pool_of(settings, 0)
    expired = ask(queue_timeout=timedelta(microseconds=1))
    patient = ask()
    SlotFactory()
    drain(MEET)
    assert statuses(expired, patient) == ["QUEUED", "DEPLOYING"]


def test_one_platform_does_not_hold_up_another(settings):
    pool_of(settings, 0)
    stuck, zoom = ask(), ask(Platform.ZOOM)
    SlotFactory(platform=Platform.ZOOM)
    drain_all()
    assert statuses(stuck, zoom) == ["QUEUED", "DEPLOYING"]


def test_a_bot_that_lost_its_slot_goes_back_to_the_place_it_came_from(settings):
    pool_of(settings, 1)
    unlucky, waiter = ask(), ask()
    handle_slot_error(
        get_slot_for_bot(unlucky), "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    assert line() == [unlucky, waiter]
    SlotFactory(number=2)
    drain(MEET)
    assert statuses(unlucky, waiter) == ["DEPLOYING", "QUEUED"]
    handle_slot_error(
        get_slot_for_bot(unlucky), "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    assert line() == [unlucky, waiter]


def test_a_bot_that_lost_its_slot_is_placed_again_at_once_if_another_is_free(settings):
    pool_of(settings, 2)
    unlucky = ask()
    handle_slot_error(
        get_slot_for_bot(unlucky), "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    unlucky.refresh_from_db()
    assert (unlucky.status, unlucky.slot_name) == ("DEPLOYING", "pool-google-meet-002")


def test_a_bot_that_lost_its_slot_has_its_whole_time_to_wait_again(settings):
    pool_of(settings, 1)
    unlucky = ask(queue_timeout=timedelta(minutes=4))
    handle_slot_error(
        get_slot_for_bot(unlucky), "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    entry = QueueEntry.objects.get(bot=unlucky)
    put_back = unlucky.events.latest("id").at
    assert abs(entry.timeout_at - put_back - timedelta(minutes=4)) < timedelta(seconds=5)


def test_a_cancelled_waiter_leaves_the_line_and_is_never_served(settings):
    pool_of(settings, 0)
    cancelled, waiter = ask(), ask()
    end_bot(cancelled, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    pool_of(settings, 2)
    drain(MEET)
    assert statuses(cancelled, waiter) == ["CANCELLED", "DEPLOYING"]
    assert broken_rules() == []


def test_a_drain_without_waiters_is_one_query(settings):
    pool_of(settings, 0)
    with CaptureQueriesContext(connection) as queries:
        drain(MEET)
    assert len(queries) == 1


def test_the_assignment_is_recorded_with_its_reason(settings):
    pool_of(settings, 0)
    bot = ask()
    SlotFactory()
    drain(MEET)
    entry = bot.events.latest("id")
    assert (entry.from_status, entry.to_status) == ("QUEUED", "DEPLOYING")
    assert (entry.reason, entry.actor) == ("Its turn in the queue", "queue")


def rows_read(rows):
    """The most rows that any step of the query plan read."""
    plan = json.loads(rows.explain(format="json", analyze=True))[0]["Plan"]
    return max(_rows_of(plan))


def _rows_of(step):
    skipped = step.get("Rows Removed by Filter", 0) + step.get("Rows Removed by Join Filter", 0)
    yield step["Actual Rows"] * step["Actual Loops"] + skipped
    for part in step.get("Plans", ()):
        yield from _rows_of(part)


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_drain_reads_the_front_of_the_line_however_long_it_is(settings, analyzed):
    pool_of(settings, 1)
    many_wait(20_000)
    if analyzed:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE bots_bot, queues_queueentry")
    front = waiting(MEET).values_list("bot_id", flat=True)[: drain_module.FRONT]
    assert rows_read(front) <= drain_module.FRONT
    assert rows_read(waiting(MEET)[:1]) <= 1


def test_a_waiter_that_holds_a_slot_holds_up_no_other(settings):
    """Its rows contradict each other: it is left to its deadline."""
    pool_of(settings, 0)
    wrong, waiter = ask(), ask()
    elsewhere = ask(Platform.ZOOM)
    slot = SlotFactory(status="deploying", assigned_bot=wrong)
    SlotFactory()
    SlotFactory(platform=Platform.ZOOM)
    pool_of(settings, 2)
    drain_all()
    assert statuses(wrong, waiter, elsewhere) == ["QUEUED", "DEPLOYING", "DEPLOYING"]
    assert get_slot_for_bot(wrong) == slot


def test_a_platform_whose_drain_fails_holds_up_no_other(settings, monkeypatch, caplog):
    pool_of(settings, 0)
    ask(MEET)
    elsewhere = ask(Platform.ZOOM)
    pool_of(settings, 1)
    serve = drain_module._serve_some

    def fail(platform):
        if platform == MEET:
            raise OperationalError("deadlock detected")
        return serve(platform)

    monkeypatch.setattr(drain_module, "_serve_some", fail)
    drain_all()
    assert status_of(elsewhere) == "DEPLOYING"
    assert "google-meet" in caplog.text
