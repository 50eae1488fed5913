import pytest

from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from pool.assign import BotIsNotWaiting, assign_bot_to_slot
from pool.lifecycle import (
    MoveNotAllowed,
    confirm_slot_stopped,
    end_bot,
    get_bot_by_container_uuid,
    get_slot_for_bot,
    handle_slot_error,
    mark_slot_running,
    recover_slot,
    release_bot_from_slot,
)
from queues.models import QueueEntry
from slots.models import Slot, SlotTransition
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db

DONE = Outcome(BotStatus.DONE, "Meeting over", "bot")


def assign(bot):
    return assign_bot_to_slot(bot, reason="Bot requested", actor="test")


def running(bot):
    slot = assign(bot)
    assert mark_slot_running(slot, reason="Container runs", actor="test")
    slot.refresh_from_db()
    return slot


def test_it_gives_the_least_recently_used_idle_slot(db):
    SlotFactory(number=1, last_used_at="2026-01-02T00:00Z")
    SlotFactory(number=2, last_used_at="2026-01-01T00:00Z")
    assert assign(BotFactory()).number == 2


def test_a_slot_never_used_goes_first(db):
    SlotFactory(number=1, last_used_at="2026-01-02T00:00Z")
    SlotFactory(number=2)
    assert assign(BotFactory()).number == 2


def test_a_cordoned_slot_is_not_given(settings):
    settings.MAX_POOL_SIZES = {Platform.GOOGLE_MEET: 1}
    SlotFactory(cordoned=True)
    assert assign(BotFactory()) is None


def test_a_slot_of_another_platform_is_not_given(settings):
    settings.MAX_POOL_SIZES = {Platform.GOOGLE_MEET: 0}
    SlotFactory(platform=Platform.ZOOM)
    assert assign(BotFactory()) is None


def test_it_makes_a_new_slot_with_the_lowest_free_number_when_none_is_idle():
    for number in (1, 2, 4):
        SlotFactory(number=number, cordoned=True)
    slot = assign(BotFactory())
    assert (slot.number, slot.name) == (3, "pool-google-meet-003")
    assert (slot.status, slot.epoch, slot.coolify_uuid) == ("deploying", 1, "")


def test_names_go_on_beyond_three_digits(settings):
    settings.MAX_POOL_SIZES = {Platform.GOOGLE_MEET: 2000}
    Slot.objects.bulk_create(SlotFactory.build(number=n, cordoned=True) for n in range(1, 1000))
    assert assign(BotFactory()).name == "pool-google-meet-1000"


def test_new_slots_are_spread_over_the_servers(settings):
    settings.COOLIFY_SERVER_UUIDS = ["a", "b"]
    assert [assign(BotFactory()).server_uuid for _ in range(3)] == ["a", "b", "a"]


def test_a_full_pool_gives_none_and_changes_nothing(settings):
    settings.MAX_POOL_SIZES = {Platform.GOOGLE_MEET: 1}
    assign(BotFactory())
    bot = BotFactory()
    assert assign(bot) is None
    bot.refresh_from_db()
    assert bot.status == BotStatus.PENDING
    assert not bot.events.exists()


def test_a_pool_that_was_made_smaller_does_not_grow_into_its_gaps(settings):
    for number in (1, 3, 4):
        SlotFactory(number=number, cordoned=True)
    settings.MAX_POOL_SIZES = {Platform.GOOGLE_MEET: 2}
    assert assign(BotFactory()) is None


def test_an_assignment_raises_the_epoch_and_is_in_both_histories():
    SlotFactory(number=7, epoch=4)
    bot = BotFactory(correlation_id="c-1")
    slot = assign(bot)
    bot.refresh_from_db()
    assert (slot.epoch, slot.status, slot.assigned_bot_id) == (5, "deploying", bot.pk)
    assert (bot.status, bot.placements, bot.slot_name) == ("DEPLOYING", 1, slot.name)
    assert bot.coolify_service_uuid == slot.coolify_uuid

    entry = SlotTransition.objects.get()
    assert (entry.from_status, entry.to_status, entry.reason) == (
        "idle",
        "deploying",
        "Bot requested",
    )
    assert (entry.bot_id, entry.epoch, entry.actor) == (bot.pk, 5, "test")
    assert (entry.coolify_uuid, entry.correlation_id) == (slot.coolify_uuid, "c-1")
    assert entry.lasted.total_seconds() >= 0
    event = bot.events.get()
    assert (event.from_status, event.to_status, event.epoch) == ("PENDING", "DEPLOYING", 5)


@pytest.mark.django_db(transaction=True)
def test_a_bot_that_has_ended_gets_no_slot_and_the_slot_stays_idle():
    slot = SlotFactory()
    bot = BotFactory()
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    with pytest.raises(BotIsNotWaiting):
        assign(bot)
    slot.refresh_from_db()
    assert (slot.status, slot.epoch) == ("idle", 0)


def test_a_bot_cannot_get_a_second_slot():
    SlotFactory.create_batch(2)
    bot = BotFactory()
    assign(bot)
    with pytest.raises(BotIsNotWaiting):
        assign(bot)


def test_running_makes_the_slot_busy_and_the_bot_join():
    bot = BotFactory()
    slot = running(bot)
    bot.refresh_from_db()
    assert (slot.status, slot.epoch) == ("busy", 1)
    assert bot.status == BotStatus.JOINING_CALL
    assert bot.started_at is not None


def test_a_release_ends_the_bot_and_leaves_the_slot_stopping():
    bot = BotFactory()
    slot = running(bot)
    assert release_bot_from_slot(slot, DONE)
    slot.refresh_from_db()
    bot.refresh_from_db()
    assert (slot.status, slot.assigned_bot_id, slot.epoch) == ("stopping", None, 2)
    assert slot.last_released_at is not None
    assert (bot.status, bot.slot_name) == (BotStatus.DONE, slot.name)
    entry = slot.transitions.latest("id")
    assert (entry.from_status, entry.to_status, entry.bot_id) == ("busy", "stopping", bot.pk)


def test_a_stopped_slot_is_idle_and_serves_the_next_bot():
    slot = running(BotFactory())
    release_bot_from_slot(slot, DONE)
    slot.refresh_from_db()
    assert confirm_slot_stopped(slot, reason="Container gone", actor="test")
    next_one = assign(BotFactory())
    assert (next_one.pk, next_one.epoch) == (slot.pk, 3)


def test_a_second_release_changes_nothing(caplog):
    slot = running(BotFactory())
    assert release_bot_from_slot(slot, DONE)
    assert not release_bot_from_slot(slot, DONE)
    assert slot.transitions.filter(to_status="stopping").count() == 1


def test_a_late_release_does_not_take_the_slot_from_its_next_bot():
    old = running(BotFactory())
    release_bot_from_slot(old, DONE)
    confirm_slot_stopped(Slot.objects.get(), reason="Container gone", actor="test")
    newcomer = BotFactory()
    assign(newcomer)
    assert not release_bot_from_slot(old, DONE)
    assert get_slot_for_bot(newcomer).status == "deploying"


def test_a_late_release_does_not_take_a_slot_that_is_busy_again():
    old = running(BotFactory())
    release_bot_from_slot(old, DONE)
    confirm_slot_stopped(Slot.objects.get(), reason="Container gone", actor="test")
    newcomer = BotFactory()
    running(newcomer)
    assert not release_bot_from_slot(old, DONE)
    assert get_slot_for_bot(newcomer).status == "busy"


def test_a_late_error_of_the_last_bot_does_not_hit_the_next_one():
    old = running(BotFactory())
    release_bot_from_slot(old, DONE)
    confirm_slot_stopped(Slot.objects.get(), reason="Container gone", actor="test")
    newcomer = BotFactory()
    assign(newcomer)
    assert not handle_slot_error(
        old, "Container crashed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    newcomer.refresh_from_db()
    assert (newcomer.status, get_slot_for_bot(newcomer).status) == ("DEPLOYING", "deploying")


def test_a_late_success_does_not_make_another_bots_slot_busy():
    old = assign(BotFactory())
    release_bot_from_slot(old, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    confirm_slot_stopped(Slot.objects.get(), reason="Container gone", actor="test")
    assign(BotFactory())
    assert not mark_slot_running(old, reason="Container runs", actor="test")
    assert Slot.objects.get().status == "deploying"


def test_a_release_never_changes_the_result_of_a_bot_that_has_ended():
    bot = BotFactory()
    slot = running(bot)
    end_bot(bot, DONE)
    failed = Outcome(BotStatus.FAILED, "Stop failed", "test", FailureCause.CONTAINER_GONE)
    assert not release_bot_from_slot(slot, failed)
    bot.refresh_from_db()
    assert bot.status == BotStatus.DONE


def test_a_bot_that_has_not_run_cannot_be_done():
    slot = assign(BotFactory())
    with pytest.raises(MoveNotAllowed):
        release_bot_from_slot(slot, DONE)
    slot.refresh_from_db()
    assert slot.status == "deploying"


def test_ending_a_bot_frees_the_slot_it_holds():
    bot = BotFactory()
    slot = running(bot)
    assert end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    slot.refresh_from_db()
    assert slot.status == "stopping"


def test_ending_a_bot_twice_changes_nothing_the_second_time():
    bot = BotFactory()
    running(bot)
    assert end_bot(bot, DONE)
    assert not end_bot(bot, Outcome(BotStatus.CANCELLED, "Too late", "test"))
    bot.refresh_from_db()
    assert bot.status == BotStatus.DONE


def test_an_error_before_the_bot_ran_puts_it_back_in_line_where_it_was():
    bot = BotFactory()
    slot = assign(bot)
    assert handle_slot_error(slot, "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    slot.refresh_from_db()
    bot.refresh_from_db()
    assert (slot.status, slot.error, slot.epoch) == ("error", "Pull failed", 2)
    assert bot.status == BotStatus.QUEUED
    assert QueueEntry.objects.get(bot=bot).queued_at == bot.created_at


def test_a_bot_is_placed_again_only_as_often_as_is_set(settings):
    settings.MAX_PLACEMENTS = 2
    bot = BotFactory()
    for _ in range(2):
        bot.refresh_from_db()
        handle_slot_error(
            assign(bot), "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test"
        )
    bot.refresh_from_db()
    assert (bot.status, bot.failure_kind) == ("FAILED", "infrastructure")
    assert bot.failure_reason == "Pull failed"
    assert not QueueEntry.objects.exists()


def test_an_error_while_the_bot_ran_fails_it():
    bot = BotFactory()
    handle_slot_error(
        running(bot), "Container crashed", cause=FailureCause.CONTAINER_FAILED, actor="test"
    )
    bot.refresh_from_db()
    assert (bot.status, bot.failure_reason) == ("FAILED", "Container crashed")


def test_an_error_with_recreate_stops_the_slot_for_a_new_application():
    slot = assign(BotFactory())
    handle_slot_error(
        slot,
        "Stuck for 30 minutes",
        cause=FailureCause.CONTAINER_FAILED,
        actor="test",
        recreate=True,
    )
    slot.refresh_from_db()
    assert (slot.status, slot.recreate) == ("stopping", True)


def test_a_recovered_slot_counts_its_attempts_and_forgets_them_when_it_runs():
    slot = assign(BotFactory())
    handle_slot_error(slot, "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    slot.refresh_from_db()
    assert recover_slot(slot, reason="Next try", actor="test")
    slot.refresh_from_db()
    assert (slot.status, slot.recovery_attempts) == ("stopping", 1)
    confirm_slot_stopped(slot, reason="Container gone", actor="test")
    assert running(BotFactory()).recovery_attempts == 0


def test_it_finds_the_bot_of_a_container_by_its_assignment_first():
    slot = SlotFactory(coolify_uuid="app-x")
    BotFactory(coolify_service_uuid="app-x")
    bot = BotFactory()
    assign(bot)
    BotFactory(coolify_service_uuid=slot.coolify_uuid)
    assert get_bot_by_container_uuid("app-x") == bot


def test_after_release_it_finds_the_bot_that_ran_there_last():
    SlotFactory(coolify_uuid="app-x")
    BotFactory(coolify_service_uuid="app-x")
    bot = BotFactory()
    release_bot_from_slot(running(bot), DONE)
    assert get_bot_by_container_uuid("app-x") == bot


@pytest.mark.parametrize("uuid", ["", "unknown"])
def test_no_bot_is_found_for_an_unknown_container(uuid):
    BotFactory()
    assert get_bot_by_container_uuid(uuid) is None


def test_each_change_is_one_line_in_the_log(caplog, django_capture_on_commit_callbacks):
    bot = BotFactory(correlation_id="c-9")
    slot = SlotFactory(number=3, coolify_uuid="app-3")
    with caplog.at_level("INFO"), django_capture_on_commit_callbacks(execute=True):
        assign(bot)
    assert (
        f"[Pool] [corr=c-9] Slot pool-google-meet-003 ({slot.pk}): idle → deploying | "
        f'bot={bot.pk} | coolify=app-3 | epoch=1 | reason="Bot requested"'
    ) in caplog.messages
