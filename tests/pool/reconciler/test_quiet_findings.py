"""What is as it should be is not reported as a finding."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from pool.controller.descriptions import slots_with_another_description
from pool.reconciler.reconcile import reconcile
from slots.history import note
from slots.models import Finding, Slot
from tests.factories import BotFactory, SlotFactory

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


def test_an_application_that_we_have_just_let_go_of_is_not_unknown(pool):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    slot = Slot.objects.get()
    note(slot, "Application deleted, to be replaced", actor="test")
    Slot.objects.filter(pk=slot.pk).update(coolify_uuid="")
    reconcile()
    assert not Finding.objects.filter(kind="application_unknown").exists()


def test_a_container_in_a_meeting_is_not_called_available_for_long():
    settled = timedelta(seconds=40)
    since = Now() - timedelta(seconds=15)
    busy = SlotFactory(
        status="busy", previous_status="deploying", assigned_bot=BotFactory(), status_since=since
    )
    SlotFactory(status="idle", status_since=since, last_used_at="2026-01-01T00:00Z")
    assert slots_with_another_description(settled_for=settled) == [busy]


def test_a_start_or_stop_that_is_soon_over_is_not_told_of():
    settled = timedelta(seconds=40)
    soon_over, lasting = Now() - timedelta(seconds=100), Now() - timedelta(seconds=170)
    SlotFactory(status="deploying", assigned_bot=BotFactory(), status_since=soon_over)
    SlotFactory(status="stopping", previous_status="busy", status_since=soon_over)
    cold = SlotFactory(status="deploying", assigned_bot=BotFactory(), status_since=lasting)
    assert slots_with_another_description(settled_for=settled) == [cold]
