"""The breaker holds back repairs that could end many meetings, and no others."""

from datetime import timedelta

import pytest
from django.utils import timezone

from bots.models import Bot
from bots.moves import Outcome, move_bot
from bots.status import BotStatus, Platform
from pool.assign import assign_bot_to_slot
from pool.lifecycle import mark_slot_running
from pool.reconciler import hearing as uptime
from pool.reconciler.approvals import approve_repair
from pool.reconciler.breaker import HARM, SLOTS_IN_A_PASS, Harm
from pool.reconciler.reconcile import reconcile
from pool.reports import record_heartbeat
from slots.finding import Finding, FindingKind
from slots.models import Slot, Uptime
from slots.tokens import Assignment
from tests.factories import BotFactory, SlotFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def bots_can_be_heard(monkeypatch):
    monkeypatch.setattr(uptime, "web_answers", lambda: True)
    now = timezone.now()
    Uptime.objects.create(since=now - timedelta(hours=1), until=now)


def busy(platform=Platform.ZOOM, *, silent=True):
    SlotFactory(platform=platform)
    bot = BotFactory(platform=platform)
    slot = assign_bot_to_slot(bot, reason="Bot requested", actor="test")
    mark_slot_running(slot, reason="Container runs", actor="test")
    if silent:
        long_ago = timezone.now() - timedelta(minutes=6)
        Slot.objects.filter(pk=slot.pk).update(status_since=long_ago)
        Bot.objects.filter(pk=bot.pk).update(
            last_heartbeat_at=long_ago, status_since=long_ago, started_at=long_ago
        )
    return Bot.objects.get(pk=bot.pk)


def three_of_eight():
    return silent_bots(3, of=8)


def silent_bots(count, *, of):
    silent = [busy() for _ in range(count)]
    for _ in range(of - count):
        busy(silent=False)
    return silent


def status(bot):
    return Bot.objects.get(pk=bot.pk).status


def statuses(bots):
    return [status(bot) for bot in bots]


def held():
    return Finding.objects.filter(ended_at=None).exclude(held_back="").order_by("bot_id")


def approve(*findings, reason="They are dead"):
    return [
        approve_repair(each.pk, seen=each.fingerprint, reason=reason, actor="user:ada")
        for each in findings
    ]


# --- What is held back ---


def test_three_crashes_on_one_platform_hold_back_nothing_else():
    three = three_of_eight()
    other_platform = busy(Platform.TEAMS)
    other_kind = busy(silent=False)
    move_bot(other_kind.pk, Outcome(BotStatus.DONE, "Meeting over", "test"))

    report = reconcile()

    assert statuses(three) == ["JOINING_CALL"] * 3
    assert "3 of 9 busy Zoom slots" in report.stopped
    assert [each.bot_id for each in held()] == [bot.pk for bot in three]
    assert status(other_platform) == "FAILED"
    assert Slot.objects.get(last_bot_id=other_kind.pk).status == "stopping"


def test_it_is_logged_as_an_error(caplog):
    three_of_eight()
    reconcile()
    assert Finding.objects.filter(kind="too_many", ended_at=None).count() == 1
    assert any(record.levelname == "ERROR" for record in caplog.records)


@pytest.mark.parametrize(("wrong", "of"), [(2, 2), (3, 15)])
def test_two_slots_or_a_fifth_of_them_may_be_repaired(wrong, of):
    bots = silent_bots(wrong, of=of)
    assert reconcile().stopped == ""
    assert statuses(bots) == ["FAILED"] * wrong


def test_a_command_can_let_it_repair_many():
    three = three_of_eight()
    reconcile()
    reconcile(allow_many=True)
    assert statuses(three) == ["FAILED"] * 3
    assert not Finding.objects.filter(kind="too_many", ended_at=None).exists()


def test_it_opens_by_itself_when_the_evidence_goes_away():
    three = three_of_eight()
    reconcile()
    slot = Slot.objects.get(assigned_bot=three[0])

    record_heartbeat(Assignment(bot_id=three[0].pk, slot_id=slot.pk, epoch=slot.epoch))
    report = reconcile()

    assert report.stopped == ""
    assert statuses(three) == ["JOINING_CALL", "FAILED", "FAILED"]
    assert not held().exists()
    assert not Finding.objects.filter(kind="too_many", ended_at=None).exists()


def test_repairs_of_the_last_passes_count_too():
    """Else a fault that hits two bots in each pass would end all meetings."""
    first = silent_bots(2, of=8)
    reconcile()
    assert statuses(first) == ["FAILED"] * 2
    later = [busy() for _ in range(2)]

    reconcile()

    assert statuses(later) == ["JOINING_CALL"] * 2
    long_ago = timezone.now() - timedelta(minutes=10)
    Finding.objects.filter(acted_at__isnull=False).update(acted_at=long_ago)
    reconcile()
    assert statuses(later) == ["FAILED"] * 2


def test_every_kind_with_a_repair_has_a_class():
    only_reported = {
        FindingKind.SLOT_IN_ERROR,
        FindingKind.APPLICATION_UNKNOWN,
        FindingKind.WRONG_TEAM,
        FindingKind.SHORT_LIST,
        FindingKind.UNHEARD,
        FindingKind.TOO_MANY,
    }
    assert set(HARM) == set(FindingKind) - only_reported
    assert {kind for kind, harm in HARM.items() if harm is Harm.MEETING} == {
        FindingKind.HEARTBEAT_LOST,
        FindingKind.CONTAINER_GONE,
        FindingKind.CRASH_LOOP,
    }


def test_repairs_that_cannot_end_a_meeting_are_never_held_back():
    bots = [busy(silent=False) for _ in range(6)]
    for bot in bots:
        move_bot(bot.pk, Outcome(BotStatus.DONE, "Meeting over", "test"))

    assert reconcile().stopped == ""

    assert Slot.objects.filter(status="stopping").count() == 6


def test_repairs_that_cost_a_slot_come_in_small_numbers(settings):
    """All of them in the end, and without an operator."""
    hour_ago = timezone.now() - timedelta(hours=1)
    for _ in range(SLOTS_IN_A_PASS + 2):
        SlotFactory(platform=Platform.ZOOM)
        assign_bot_to_slot(BotFactory(platform=Platform.ZOOM), reason="Requested", actor="test")
    Slot.objects.update(status_since=hour_ago)
    for deployment in Slot.objects.all():
        deployment.deployments.update(
            status="in_progress",
            status_since=hour_ago,
            start_asked_at=hour_ago,
            building_since=hour_ago,
            deadline=hour_ago,
        )

    reconcile()
    assert Slot.objects.filter(status="stopping").count() == SLOTS_IN_A_PASS

    assert reconcile().stopped == ""
    assert Slot.objects.filter(status="stopping").count() == SLOTS_IN_A_PASS + 2


# --- Approval ---


def test_an_operator_approves_the_whole_batch():
    three = three_of_eight()
    reconcile()

    assert approve(*held()) == [True] * 3
    reconcile()

    assert statuses(three) == ["FAILED"] * 3
    finding = Finding.objects.filter(kind="heartbeat_lost").earliest("pk")
    assert (finding.approved_by, finding.approval_reason) == ("user:ada", "They are dead")
    assert not Finding.objects.filter(kind="too_many", ended_at=None).exists()


def test_an_operator_approves_a_part_and_the_rest_stays_held_back():
    three = three_of_eight()
    reconcile()

    approve(held()[0])
    for _ in range(3):
        reconcile()
    Finding.objects.filter(acted_at__isnull=False).update(
        acted_at=timezone.now() - timedelta(minutes=4)
    )
    Finding.objects.filter(ended_at=None).update(
        first_seen_at=timezone.now() - timedelta(minutes=5)
    )
    reconcile()

    assert statuses(three) == ["FAILED", "JOINING_CALL", "JOINING_CALL"]
    assert held().count() == 2


def test_a_finding_whose_evidence_has_changed_is_not_approved():
    three_of_eight()
    reconcile()
    first = held()[0]
    seen = first.fingerprint
    Finding.objects.filter(pk=first.pk).update(evidence={**first.evidence, "botStatus": "IN_CALL"})

    assert not approve_repair(first.pk, seen=seen, reason="Dead", actor="user:ada")

    assert Finding.objects.get(pk=first.pk).approved_at is None


def test_an_approved_repair_is_not_made_if_its_evidence_has_changed_since():
    three = three_of_eight()
    reconcile()
    approve(*held())
    heard = timezone.now() - timedelta(minutes=5, seconds=30)
    Bot.objects.filter(pk=three[0].pk).update(last_heartbeat_at=heard)

    reconcile()

    assert statuses(three) == ["JOINING_CALL", "FAILED", "FAILED"]
    finding = Finding.objects.get(bot=three[0], ended_at=None)
    assert (finding.approved_at, finding.approved_by) == (None, "")


def test_a_finding_that_is_over_or_not_held_back_cannot_be_approved():
    bot = busy()
    reconcile()
    finding = Finding.objects.get(bot=bot)
    assert not approve_repair(finding.pk, seen=finding.fingerprint, reason="x", actor="user:ada")


def test_an_approval_during_a_pass_is_not_lost(monkeypatch):
    three = three_of_eight()
    reconcile()

    def approved_meanwhile():
        approve(*held())
        return []

    monkeypatch.setattr(
        "pool.reconciler.reconcile.slots_with_another_description", approved_meanwhile
    )
    reconcile()
    monkeypatch.undo()
    monkeypatch.setattr(uptime, "web_answers", lambda: True)
    reconcile()

    assert statuses(three) == ["FAILED"] * 3


def test_a_dry_run_shows_what_is_held_back():
    three_of_eight()
    reconcile()
    outcomes = [line.outcome for line in reconcile(dry_run=True).lines]
    assert len([each for each in outcomes if each.startswith("Held back")]) == 3
