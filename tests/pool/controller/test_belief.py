"""An answer of Coolify that cannot be right stops no bot and forgets no application."""

import time
from collections import Counter
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool.assign import assign_bot_to_slot
from pool.controller.belief.answers import doubt_about_list
from pool.lifecycle import recover_slot, release_bot_from_slot
from pool.reconciler.approvals import approve_repair
from pool.reconciler.reconcile import reconcile
from slots.models import Finding, Slot
from tests.factories import BotFactory, SlotFactory
from tests.simulated_coolify import NEVER

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PASSES = 6


@pytest.fixture(autouse=True)
def short_windows(settings):
    settings.CONTAINER_EVIDENCE = timedelta(milliseconds=300)
    settings.RECONCILE_INTERVAL = timedelta(seconds=5)
    settings.RECOVERY_PAUSE = timedelta(milliseconds=100)


@pytest.fixture
def no_pauses(monkeypatch, settings):
    """Every pass tries everything again, which in life takes minutes."""
    settings.COOLIFY_PROBE_PAUSE = timedelta(milliseconds=1)
    monkeypatch.setattr("pool.controller.start.LONGEST_BACKOFF", 0.01)


def four_busy_and_two_idle(pool):
    bots = [pool.request(meetingSeconds=NEVER) for _ in range(6)]
    pool.until(lambda: pool.all_run(bots))
    pool.control.report_statuses()
    end(bots[4:])
    pool.until(lambda: Slot.objects.filter(status="idle").count() == 2)
    return bots[:4]


def end(bots):
    for bot in bots:
        slot = Slot.objects.get(assigned_bot=bot)
        release_bot_from_slot(slot, Outcome(BotStatus.DONE, "Meeting over", "test"))


def passes(pool):
    for _ in range(PASSES):
        reconcile()
        for _ in range(3):
            pool.tend()
            time.sleep(0.05)


def applications():
    return dict(Slot.objects.values_list("name", "coolify_uuid"))


def test_a_token_of_another_team_forgets_frees_and_fails_nothing(pool, no_pauses):
    bots = four_busy_and_two_idle(pool)
    before = applications()
    pool.control.add_fault("wrong_team")
    end(bots[2:])
    more = [pool.request(), pool.request(Platform.ZOOM)]

    passes(pool)

    assert {name: applications()[name] for name in before} == before
    statuses = Counter(Slot.objects.values_list("status", flat=True))
    assert statuses == {"busy": 2, "deploying": 2, "idle": 1, "stopping": 2}
    assert not Bot.objects.filter(status=BotStatus.FAILED).exists()
    assert not Slot.objects.filter(recreate=True).exists()

    # The right token is back: all goes on by itself.
    pool.control.clear_faults()
    pool.until(lambda: reconcile() and pool.all_run(more))
    pool.until(lambda: reconcile() and not Slot.objects.filter(status="stopping").exists())
    assert not Bot.objects.filter(status=BotStatus.FAILED).exists()
    assert not Finding.objects.filter(kind="wrong_team", ended_at=None).exists()


def test_a_slot_that_stops_is_not_idle_because_coolify_shows_nothing(pool, no_pauses):
    """Only two slots: too few for a short list to look wrong."""
    bots = [pool.request(meetingSeconds=NEVER) for _ in range(2)]
    pool.until(lambda: pool.all_run(bots))
    before = applications()
    pool.control.add_fault("wrong_team")
    end(bots)

    passes(pool)

    assert applications() == before
    assert Slot.objects.filter(status="stopping").count() == 2
    assert "Coolify does not show our project" in Finding.objects.get(kind="wrong_team").reason


def test_an_operator_can_say_that_missing_applications_are_gone(pool, no_pauses):
    """They were all deleted in Coolify: that is too much to be believed without an operator."""
    bots = [pool.request(meetingSeconds=NEVER) for _ in range(4)]
    pool.until(lambda: pool.all_run(bots))
    end(bots)
    pool.until(pool.all_idle)
    for uuid in applications().values():
        pool.control.delete_application(uuid)
    before = applications()

    passes(pool)

    assert applications() == before
    held = Finding.objects.filter(kind="application_gone", ended_at=None).order_by("pk")
    assert [bool(each.held_back) for each in held] == [True] * 4

    for each in held[:3]:
        approve_repair(each.pk, seen=each.fingerprint, reason="I deleted them", actor="user:ada")
    reconcile()

    gone = {name for name, uuid in applications().items() if not uuid}
    assert gone >= {each.name for each in held[:3]}
    # One missing application is no longer too many, so it is believed.
    pool.until(lambda: reconcile() and not any(applications().values()))
    assert not Finding.objects.filter(kind="short_list", ended_at=None).exists()
    more = [pool.request(), pool.request()]
    pool.until(lambda: pool.all_run(more))


def test_a_slot_that_stops_believes_an_operator_without_a_repair(pool, no_pauses):
    """Its own steps may hold its lease whenever the reconciler wants to repair it."""
    bots = [pool.request(meetingSeconds=NEVER) for _ in range(4)]
    pool.until(lambda: pool.all_run(bots))
    for uuid in applications().values():
        pool.control.delete_application(uuid)
    end(bots)
    passes(pool)
    assert Slot.objects.filter(status="stopping").count() == 4
    held = Finding.objects.filter(kind="application_gone", ended_at=None).first()

    approve_repair(held.pk, seen=held.fingerprint, reason="I deleted it", actor="user:ada")
    pool.until(lambda: Slot.objects.filter(status="idle").exists())

    assert Slot.objects.get(status="idle") == held.slot
    assert Slot.objects.filter(status="stopping").count() == 3


def test_applications_that_botpool_deleted_itself_do_not_make_the_list_look_wrong(pool, no_pauses):
    """Coolify deletes them, but its answers are lost: an operator has nothing to check."""
    bots = [pool.request(meetingSeconds=NEVER) for _ in range(4)]
    pool.until(lambda: pool.all_run(bots))
    end(bots)
    pool.until(pool.all_idle)
    before = set(applications().values())
    pool.control.lose_answer(path="/applications/[^/]+$", method="DELETE", times=4)
    for slot in Slot.objects.all():
        assert recover_slot(slot, reason="Worn out", actor="test", recreate=True)

    pool.until(pool.all_idle)

    assert set(applications().values()) == {""}
    assert not Finding.objects.filter(kind="short_list", ended_at=None).exists()
    more = [pool.request() for _ in range(4)]
    pool.until(lambda: pool.all_run(more))
    assert not before & set(applications().values())


def test_an_application_that_has_a_bot_again_counts_as_missing():
    """An operator may put a slot back into service whose deletion failed."""
    slots = [SlotFactory(deletion_asked_at=Now()) for _ in range(4)]
    for _ in slots:
        assert assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    assert doubt_about_list({slot.coolify_uuid: slot.name for slot in slots}, []) is not None
