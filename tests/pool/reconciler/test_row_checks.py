"""What the reconciler finds in the rows alone. Coolify is out of reach in these tests."""

from datetime import timedelta

import pytest
from django.utils import timezone

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import BotStatus
from core.leases import acquire_lease
from pool.assign import assign_bot_to_slot
from pool.lifecycle import MoveNotAllowed, mark_slot_running
from pool.reconciler import repairs
from pool.reconciler.reconcile import reconcile
from pool.reconciler.repairs import attempt, release
from pool.reconciler.row_checks import wrong_rows
from queues.models import QueueEntry
from slots.deployment import Deployment
from slots.models import Finding, Slot
from tests.factories import BotFactory, QueueEntryFactory, SlotFactory
from tests.invariants import broken_rules

pytestmark = pytest.mark.django_db

HOUR_AGO = timezone.now() - timedelta(hours=1)


def assigned(**fields):
    SlotFactory(**fields)
    return assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")


def running():
    slot = assigned()
    mark_slot_running(slot, reason="Container runs", actor="test")
    return Slot.objects.get(pk=slot.pk)


def change(row, **fields):
    type(row).objects.filter(pk=row.pk).update(**fields)
    row.refresh_from_db()


def outcomes(report):
    return [(line.found.candidate.kind, line.outcome) for line in report.lines]


def test_a_slot_held_by_a_bot_that_has_ended_is_released_and_the_result_stays():
    slot = running()
    move_bot(slot.assigned_bot_id, Outcome(BotStatus.DONE, "Meeting over", "test"))
    bot = slot.assigned_bot

    report = reconcile()

    assert outcomes(report) == [("ended_bot_holds_slot", "Bot ended, slot released")]
    slot.refresh_from_db()
    bot.refresh_from_db()
    assert (slot.status, bot.status, bot.failure_reason) == ("stopping", "DONE", "")
    assert broken_rules() == []


def test_a_finding_keeps_its_evidence_decision_outcome_and_actor():
    slot = running()
    bot_id = slot.assigned_bot_id
    move_bot(bot_id, Outcome(BotStatus.DONE, "Meeting over", "test"))

    reconcile()

    finding = Finding.objects.get()
    assert (finding.kind, finding.slot_id, finding.bot_id) == (
        "ended_bot_holds_slot",
        slot.pk,
        bot_id,
    )
    assert (finding.epoch, finding.actor, finding.sightings) == (slot.epoch, "reconciler", 1)
    assert finding.evidence["botStatus"] == "DONE"
    assert "DONE but still holds" in finding.reason
    assert finding.decision == "Release the slot; the bot's result stays"
    assert finding.outcome == "Bot ended, slot released"
    assert finding.acted_at and finding.ended_at


def test_a_dry_run_says_what_it_would_do_and_does_nothing():
    slot = running()
    move_bot(slot.assigned_bot_id, Outcome(BotStatus.DONE, "Meeting over", "test"))

    report = reconcile(dry_run=True)

    assert outcomes(report) == [("ended_bot_holds_slot", "Would be done now")]
    slot.refresh_from_db()
    assert slot.status == "busy"
    assert not Finding.objects.exists()


def test_a_bot_that_should_hold_a_slot_and_has_none_fails():
    bot = BotFactory()
    move_bot(bot.pk, Outcome(BotStatus.DEPLOYING, "Lost its slot", "test"))

    reconcile()

    bot.refresh_from_db()
    assert (bot.status, bot.failure_kind) == ("FAILED", "infrastructure")
    assert "holds no slot" in bot.failure_reason


def test_a_pending_bot_that_was_never_placed_is_put_in_line():
    bot = BotFactory(status_since=HOUR_AGO)

    reconcile()

    bot.refresh_from_db()
    assert bot.status == "QUEUED"
    assert QueueEntry.objects.get().bot == bot


def test_a_pending_bot_is_left_alone_while_it_may_be_on_its_way():
    bot = BotFactory()

    assert reconcile().lines == []

    bot.refresh_from_db()
    assert bot.status == "PENDING"


def test_a_queued_bot_without_a_place_gets_it_back():
    bot = BotFactory()
    move_bot(bot.pk, Outcome(BotStatus.QUEUED, "Every slot is taken", "test"))

    reconcile()

    assert QueueEntry.objects.get().bot == bot


def test_a_bot_that_has_ended_leaves_the_line():
    entry = QueueEntryFactory()
    move_bot(entry.bot_id, Outcome(BotStatus.CANCELLED, "Not needed", "test"))

    reconcile()

    assert not QueueEntry.objects.exists()
    assert Bot.objects.get().status == "CANCELLED"


# --- Stuck in deploying ---


def stuck_deployment(**fields):
    slot = assigned()
    change(slot, status_since=HOUR_AGO)
    Deployment.objects.filter(slot=slot).update(**{"deadline": HOUR_AGO, **fields})
    return slot


def test_a_slot_stuck_in_deploying_is_released_by_force_and_replaced():
    slot = stuck_deployment(status="in_progress", status_since=HOUR_AGO, start_asked_at=HOUR_AGO)
    bot = slot.assigned_bot

    reconcile()

    slot.refresh_from_db()
    bot.refresh_from_db()
    assert (slot.status, slot.recreate, slot.assigned_bot_id) == ("stopping", True, None)
    assert Deployment.objects.get().status == "timed_out"
    # Its container may still come up, so the bot must not run elsewhere.
    assert (bot.status, bot.failure_kind) == ("FAILED", "infrastructure")


def test_a_bot_stuck_before_its_start_was_asked_for_is_placed_again():
    slot = stuck_deployment(status="starting", status_since=HOUR_AGO)
    bot = slot.assigned_bot

    reconcile()

    bot.refresh_from_db()
    assert bot.status == "QUEUED"
    assert broken_rules() == []


def test_a_start_that_gets_going_before_the_lease_is_left_alone():
    """It was stuck, and then a worker got through to Coolify."""
    slot = stuck_deployment(status="starting", status_since=HOUR_AGO)
    [seen] = wrong_rows(timezone.now())
    now = timezone.now()
    Deployment.objects.update(status="in_progress", status_since=now, start_asked_at=now)

    assert not attempt(seen.repair).done

    slot.assigned_bot.refresh_from_db()
    assert (slot.assigned_bot.status, slot.assigned_bot.placements) == ("DEPLOYING", 1)


def test_a_start_asked_for_before_the_lease_is_not_placed_beside_its_container():
    """Its start was sent after the check, and it is still stuck."""
    slot = stuck_deployment(status="starting", status_since=HOUR_AGO)
    [seen] = wrong_rows(timezone.now())
    Deployment.objects.update(start_asked_at=HOUR_AGO)

    assert attempt(seen.repair).done

    slot.assigned_bot.refresh_from_db()
    assert slot.assigned_bot.status == "FAILED"


@pytest.mark.parametrize("waits_for", ["waiting_for_image", "waiting_for_place"])
def test_waiting_for_an_image_or_a_place_is_not_stuck(waits_for):
    slot = stuck_deployment(status=waits_for, status_since=HOUR_AGO)

    assert reconcile().lines == []

    slot.refresh_from_db()
    assert slot.status == "deploying"


def test_time_in_coolifys_own_queue_does_not_make_a_slot_stuck():
    stuck_deployment(
        status="in_progress",
        status_since=HOUR_AGO,
        start_asked_at=HOUR_AGO,
        building_since=timezone.now(),
    )
    assert reconcile().lines == []


def test_a_deployment_whose_deadline_is_still_to_come_is_not_stuck():
    stuck_deployment(
        status="in_progress",
        status_since=HOUR_AGO,
        start_asked_at=HOUR_AGO,
        deadline=timezone.now() + timedelta(minutes=1),
    )
    assert reconcile().lines == []


# --- One at a time, under the lease ---


def test_a_slot_that_another_process_works_on_is_left_alone():
    slot = running()
    move_bot(slot.assigned_bot_id, Outcome(BotStatus.DONE, "Meeting over", "test"))
    acquire_lease(f"slot:{slot.pk}", ttl=timedelta(minutes=1))

    report = reconcile()

    assert outcomes(report) == [
        ("ended_bot_holds_slot", "Another process is working on it, nothing changed")
    ]
    slot.refresh_from_db()
    assert slot.status == "busy"


def test_only_one_pass_runs_at_a_time():
    slot = running()
    move_bot(slot.assigned_bot_id, Outcome(BotStatus.DONE, "Meeting over", "test"))
    acquire_lease("reconciler", ttl=timedelta(minutes=1))

    assert reconcile().skipped == "Another pass is running"

    slot.refresh_from_db()
    assert slot.status == "busy"


def test_a_repair_that_fails_does_not_stop_the_others(monkeypatch):
    first, second = running(), running()
    for slot in (first, second):
        move_bot(slot.assigned_bot_id, Outcome(BotStatus.DONE, "Meeting over", "test"))
    real = repairs.release_bot_from_slot

    def fail_for_the_first(slot, outcome):
        if slot.pk == first.pk:
            raise MoveNotAllowed("It is cursed")
        return real(slot, outcome)

    monkeypatch.setattr(repairs, "release_bot_from_slot", fail_for_the_first)
    report = reconcile()

    assert [line.outcome for line in report.lines] == [
        "The repair failed, nothing changed: It is cursed",
        "Bot ended, slot released",
    ]


def test_a_slot_that_has_moved_on_since_it_was_seen_is_left_alone():
    slot = running()
    change(slot, epoch=slot.epoch + 1)
    seen = Slot(pk=slot.pk, name=slot.name, epoch=slot.epoch - 1, status=slot.status)

    result = attempt(lambda: release(seen, reason="Seen in an earlier epoch"))

    assert not result.done
    slot.refresh_from_db()
    assert slot.status == "busy"


def test_slots_that_only_deploy_do_not_count_as_meetings():
    """Nothing runs in them yet, so their repair is never held back."""
    for _ in range(5):
        stuck_deployment(status="starting", status_since=HOUR_AGO)
    assert reconcile().stopped == ""
    assert not Slot.objects.filter(status="deploying", status_since__lte=HOUR_AGO).exists()
