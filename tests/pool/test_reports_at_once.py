"""Reports of a bot while its slot changes at the same moment, on real connections."""

from functools import partial

import pytest
from django.db import transaction

from bots.models import Bot, BotEvent
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause
from pool import reports as reports_module
from pool.assign import assign_bot_to_slot
from pool.lifecycle import confirm_slot_stopped, end_bot, handle_slot_error, release_bot_from_slot
from pool.reports import record_heartbeat, record_status
from slots.models import Slot
from slots.tokens import read_bot_token
from tests.api.conftest import Assigned
from tests.concurrency import at_once
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 10


@pytest.fixture
def running():
    SlotFactory()
    return Assigned()


def reports(assigned, *statuses):
    assignment = read_bot_token(assigned.token)
    return [partial(record_status, assignment, status, reason="…") for status in statuses]


def test_done_and_failed_at_once_end_the_bot_once():
    for _ in range(ROUNDS):
        SlotFactory()
        running = Assigned()
        results = at_once(reports(running, BotStatus.DONE, BotStatus.FAILED, BotStatus.IN_CALL) * 2)
        assert not [result for result in results if isinstance(result, Exception)]
        ends = BotEvent.objects.filter(bot=running.bot, to_status__in=["DONE", "FAILED"])
        assert [event.to_status for event in ends] == [running.status()]
        assert Slot.objects.get(pk=running.slot.pk).epoch == 2


def test_a_cancel_and_reports_at_once_leave_one_end():
    for _ in range(ROUNDS):
        SlotFactory()
        running = Assigned()
        cancel = partial(end_bot, running.bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
        jobs = [cancel, *reports(running, BotStatus.IN_CALL, BotStatus.LEAVING, BotStatus.DONE)]
        results = at_once(jobs)
        assert not [result for result in results if isinstance(result, Exception)]
        assert BotEvent.objects.filter(bot=running.bot).latest("id").to_status == running.status()
        assert running.bot.is_terminal
        assert Slot.objects.get(pk=running.slot.pk).status == "stopping"


def place_again(assigned):
    """The slot fails before the bot has run in it, and the bot gets another one."""
    slot = Slot.objects.get(pk=assigned.slot.pk)
    handle_slot_error(slot, "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    SlotFactory()
    bot = Bot.objects.get(pk=assigned.bot.pk)
    if bot.status == BotStatus.QUEUED:
        assign_bot_to_slot(bot, reason="Again", actor="test")


def test_a_former_container_cannot_move_a_bot_that_is_placed_elsewhere():
    for _ in range(ROUNDS):
        SlotFactory()
        former = Assigned(runs=False)
        jobs = [partial(place_again, former), *reports(former, BotStatus.IN_CALL) * 3]
        results = at_once(jobs)
        assert not [result for result in results if isinstance(result, Exception)]
        late = BotEvent.objects.filter(bot=former.bot, to_status="IN_CALL", epoch=1)
        if former.status() == BotStatus.DEPLOYING:  # it had not run, so it is in its new slot
            assert not late.exists()


def test_without_checking_the_slot_a_former_container_would_move_it(running, monkeypatch):
    """Remove the check, and the race that it prevents happens."""
    assignment = read_bot_token(running.token)
    running.release()
    stale = Slot(pk=running.slot.pk, epoch=1, assigned_bot_id=running.bot.pk)
    sign = reports_module._SignOfLife(must_leave=False, is_overlong=False, correlation_id="c")
    monkeypatch.setattr(reports_module, "_record_sign_of_life", lambda _: sign)
    confirm_slot_stopped(Slot.objects.get(), reason="Container gone", actor="test")
    again = Assigned(bot=_revived(running.bot))
    assert not record_status(assignment, BotStatus.IN_CALL, reason="late")
    assert again.status() == BotStatus.JOINING_CALL
    monkeypatch.setattr(reports_module, "_slot_of", lambda _: stale)
    assert record_status(assignment, BotStatus.IN_CALL, reason="late")
    assert again.status() == BotStatus.IN_CALL


def _revived(bot):
    """Make the same bot wait again, as if it had been placed again."""
    Bot.objects.filter(pk=bot.pk).update(
        status=BotStatus.QUEUED, previous_status=BotStatus.PENDING, ended_at=None
    )
    return Bot.objects.get(pk=bot.pk)


def test_a_heartbeat_waits_only_for_its_own_bot(running):
    SlotFactory()
    other = Assigned()
    with transaction.atomic():
        Bot.objects.select_for_update().get(pk=other.bot.pk)
        (alive,) = at_once([partial(record_heartbeat, read_bot_token(running.token))])
    assert alive is True


def test_a_release_and_a_heartbeat_at_once_do_not_deadlock():
    done = Outcome(BotStatus.DONE, "Meeting over", "test")
    for _ in range(ROUNDS):
        SlotFactory()
        running = Assigned()
        slot = Slot.objects.get(pk=running.slot.pk)
        assignment = read_bot_token(running.token)
        jobs = [partial(record_heartbeat, assignment)] * 4
        results = at_once([partial(release_bot_from_slot, slot, done), *jobs])
        assert not [result for result in results if isinstance(result, Exception)]
        assert running.status() == BotStatus.DONE
