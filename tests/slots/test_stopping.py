"""Bringing a container down, and being sure that it is down."""

from datetime import timedelta

import pytest

from bots.moves import Outcome
from bots.status import BotStatus
from slots.deployment import Deployment, DeploymentStatus
from slots.lifecycle import end_bot
from slots.models import Slot

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def cancel_during_its_start(pool):
    """Its container is not seen to run, so that `exited` has to last before it is believed."""
    bot = pool.request()
    pool.until(lambda: Deployment.objects.filter(status=DeploymentStatus.IN_PROGRESS).exists())
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))


def test_a_slot_comes_free_where_a_stop_is_repeated_sooner_than_it_is_believed(pool, settings):
    settings.STOP_RETRY_AFTER = timedelta(milliseconds=300)
    settings.STOP_MAX_ATTEMPTS = 10_000
    settings.STOP_CONFIRM_AFTER = timedelta(milliseconds=900)
    cancel_during_its_start(pool)
    pool.until(pool.all_idle, seconds=30)


def test_a_stop_is_not_repeated_while_the_container_is_seen_to_be_gone(pool, settings):
    settings.STOP_RETRY_AFTER = timedelta(milliseconds=1)
    settings.STOP_MAX_ATTEMPTS = 10_000
    settings.STOP_CONFIRM_AFTER = timedelta(seconds=60)
    cancel_during_its_start(pool)
    pool.until(lambda: Slot.objects.filter(seen_gone_since__isnull=False).exists())
    attempts = Slot.objects.get().stop_attempts
    for _ in range(20):
        pool.tend()
    assert Slot.objects.get().stop_attempts == attempts
