"""What is normal is not reported as a finding."""

import pytest

from pool.reconciler.reconcile import reconcile
from slots.history import note
from slots.models import Finding, Slot, SlotTransition

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_a_slot_that_has_just_begun_to_stop_is_not_stuck(pool):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    pool.control.add_fault("stop_ignored")
    Slot.objects.filter(assigned_bot=bot).update(
        status="stopping", previous_status="busy", assigned_bot=None
    )
    reconcile()
    assert not Finding.objects.filter(kind="stuck_stopping").exists()


def test_an_application_that_was_just_deleted_is_not_unknown(pool):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    slot = Slot.objects.get()
    note(slot, "Gone", actor="test", kind=SlotTransition.Kind.APPLICATION_DELETED)
    Slot.objects.filter(pk=slot.pk).update(coolify_uuid="")
    reconcile()
    assert not Finding.objects.filter(kind="application_unknown").exists()
