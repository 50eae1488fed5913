"""Draining a platform or everything, and when it is safe."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from bots.status import Platform
from pool.steering import pause_platform
from pool.waiting.draining import draining
from slots.models import Slot
from tests.dashboard.populated import ask, fail, finish, run

pytestmark = pytest.mark.django_db


def pause(platform=Platform.GOOGLE_MEET):
    pause_platform(platform, reason="New disk", actor="user:otto")


def page(viewer):
    cache.clear()
    return viewer.get("/maintenance/").text


def test_a_platform_in_service_is_not_safe(viewer):
    assert not draining(Platform.ZOOM).is_safe
    assert "Safe now" not in page(viewer)


def test_a_platform_is_safe_once_it_is_paused_and_empty(viewer):
    bot = ask()
    run(bot)
    pause()
    drain = draining(Platform.GOOGLE_MEET)
    assert (drain.is_safe, len(drain.runners)) == (False, 1)
    assert drain.last_end_at > timezone.now()
    assert "1 still in use, the last is likely free" in page(viewer)
    finish(bot)
    assert draining(Platform.GOOGLE_MEET).is_safe
    assert page(viewer).count("✓ Safe now") == 1


def test_a_container_that_is_stopping_still_runs():
    slot = run(ask())
    Slot.objects.filter(pk=slot.pk).update(
        status="stopping", previous_status="busy", assigned_bot=None
    )
    pause()
    assert not draining(Platform.GOOGLE_MEET).is_safe


def test_a_slot_in_error_is_not_safe(viewer):
    fail(ask())
    pause()
    assert not draining(Platform.GOOGLE_MEET).is_safe
    assert "1 in error</a>: what runs there is not known" in page(viewer)


def test_everything_is_safe_once_each_platform_is(viewer):
    for platform in Platform:
        pause(platform)
    assert "Safe now: no container runs, and none will start." in page(viewer)


def test_everything_can_be_drained_in_one_go(operator):
    shown = operator.get("/maintenance/").text
    assert "/actions/drain/?item=google-meet&amp;item=teams&amp;item=zoom" in shown
    pause(Platform.ZOOM)
    assert "/actions/drain/?item=google-meet&amp;item=teams&amp;next" in page(operator)


def test_the_end_of_a_long_meeting_is_expected_later():
    slot = run(ask())
    soon = draining(Platform.GOOGLE_MEET).last_end_at
    five_hours_ago = timezone.now() - timedelta(hours=5)
    Slot.objects.filter(pk=slot.pk).update(last_assigned_at=five_hours_ago)
    assert draining(Platform.GOOGLE_MEET).last_end_at > soon
