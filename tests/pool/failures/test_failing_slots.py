from datetime import timedelta

import pytest
from django.utils import timezone

from bots.status import FailureCause
from pool.failures.recent import failing_slots, failures_of
from pool.lifecycle import handle_slot_error
from pool.steering import uncordon_slot
from slots.models import Slot, SlotTransition
from tests.factories import BotFactory, DeploymentFactory, SlotFactory
from tests.queued import ask

pytestmark = pytest.mark.django_db


def starts(slot, outcomes, *, cause=FailureCause.DEPLOYMENT_FAILED, ago=timedelta(hours=1)):
    """Starts of the past: "f" failed, "." went well."""
    for outcome in outcomes:
        failed = outcome == "f"
        DeploymentFactory(
            slot=slot,
            bot=BotFactory(),
            status="failed" if failed else "finished",
            failure_cause=cause if failed else "",
            ended_at=timezone.now() - ago,
        )


# --- Which fail --------------------------------------------------------------------------------


def test_a_slot_that_fails_most_of_its_last_starts_is_named():
    slot = SlotFactory()
    starts(slot, "....f.fff")
    [found] = failing_slots()
    assert found.words == f"{slot.name} failed 4 of its last 5 starts: deployment failed"
    assert found.slot_id == slot.pk


def test_two_failures_are_not_often():
    starts(SlotFactory(), "ff...")
    assert failing_slots() == []


def test_failures_of_yesterday_or_by_an_operator_do_not_count():
    old, operated = SlotFactory(), SlotFactory()
    starts(old, "ffff", ago=timedelta(hours=25))
    starts(operated, "ffff", cause=FailureCause.OPERATOR)
    assert failing_slots() == []
    assert failures_of([old.pk, operated.pk]) == {}


def test_failures_are_counted_by_slot():
    bad, good = SlotFactory(), SlotFactory()
    starts(bad, "f.f")
    starts(good, "...")
    assert failures_of([bad.pk, good.pk]) == {bad.pk: 2}


# --- Quarantine --------------------------------------------------------------------------------


def fail_now(slot, cause=FailureCause.DEPLOYMENT_FAILED):
    """Its current start fails."""
    slot.refresh_from_db()
    assert handle_slot_error(slot, "Image missing", cause=cause, actor="test", place_again=False)
    slot.refresh_from_db()
    return slot


def deploying(outcomes):
    """A slot with these starts behind it, and one under way."""
    slot = SlotFactory(number=1)
    starts(slot, outcomes)
    ask()
    slot.refresh_from_db()
    assert slot.status == "deploying"
    return slot


def test_a_slot_is_quarantined_after_three_failures_while_others_start():
    slot = deploying("ff")
    starts(SlotFactory(number=2), ".")
    fail_now(slot)
    assert (slot.cordoned, slot.quarantined, slot.status) == (True, True, "error")
    last = SlotTransition.objects.filter(slot=slot).latest("pk")
    assert last.reason == "Quarantined: its last 3 starts failed, others started"


def test_a_slot_is_not_to_blame_if_no_other_starts():
    other = SlotFactory(number=2)
    starts(other, ".")  # before the failures
    slot = deploying("ff")
    starts(other, "f")
    fail_now(slot)
    assert not slot.quarantined


def test_a_slot_is_not_to_blame_for_a_lost_server():
    slot = SlotFactory(number=1)
    starts(slot, "fff", cause=FailureCause.SERVER_LOST)
    assert failures_of([slot.pk]) == {}
    ask()
    starts(SlotFactory(number=2), ".")
    assert not fail_now(slot).quarantined


@pytest.mark.parametrize("outcomes", ["f", "f.", ".f.f"])
def test_failures_have_to_come_in_a_row(outcomes):
    slot = deploying(outcomes)
    starts(SlotFactory(number=2), ".")
    assert not fail_now(slot).quarantined


def test_an_operators_hand_is_no_failure():
    slot = deploying("ff")
    starts(SlotFactory(number=2), ".")
    assert not fail_now(slot, cause=FailureCause.OPERATOR).quarantined


def test_at_most_a_fifth_of_a_pool_is_quarantined(settings):
    settings.MAX_POOL_SIZES = dict.fromkeys(settings.MAX_POOL_SIZES, 9)
    SlotFactory(number=3, cordoned=True, quarantined=True)
    slot = deploying("ff")
    starts(SlotFactory(number=2), ".")
    assert not fail_now(slot).quarantined


def test_it_can_be_switched_off(settings):
    settings.QUARANTINE_AFTER = 0
    slot = deploying("fffff")
    starts(SlotFactory(number=2), ".")
    assert not fail_now(slot).quarantined


def test_an_operator_ends_a_quarantine():
    slot = SlotFactory(cordoned=True, quarantined=True)
    slot.refresh_from_db()
    assert uncordon_slot(slot, reason="Fixed", actor="anna")
    slot = Slot.objects.get(pk=slot.pk)
    assert (slot.cordoned, slot.quarantined) == (False, False)
