from datetime import timedelta

import pytest
from django.utils import timezone

from bots.status import Platform
from pool.capacity import current_pause
from pool.drain import drain
from pool.steering import pause_platform, resume_platform
from pool.sweep import sweep_queue
from slots.models import Pool
from tests.factories import SlotFactory
from tests.queued import ask, line, pool_of, status_of, statuses

pytestmark = pytest.mark.django_db(transaction=True)

MEET = Platform.GOOGLE_MEET
WHY = {"reason": "New image", "actor": "alice"}


def test_a_paused_platform_gives_no_slot_to_waiters_or_newcomers(settings):
    pool_of(settings, 0)
    waiter = ask()
    pause_platform(MEET, **WHY)
    SlotFactory()
    newcomer = ask()
    assert drain(MEET) == []
    assert statuses(waiter, newcomer) == ["QUEUED", "QUEUED"]
    assert newcomer.events.latest("id").reason == "The platform is paused"


def test_waiters_keep_their_places_and_go_on_when_it_is_resumed(settings):
    pool_of(settings, 0)
    pause_platform(MEET, **WHY)
    first, second = ask(), ask()
    pool_of(settings, 1)
    assert line() == [first, second]
    assert resume_platform(MEET, **WHY)
    assert statuses(first, second) == ["DEPLOYING", "QUEUED"]


def test_a_pause_says_who_and_why():
    pause_platform(MEET, **WHY)
    pause = current_pause(MEET)
    assert (pause.paused_by, pause.pause_reason) == ("alice", "New image")
    assert pause.paused_at is not None


def test_another_platform_goes_on():
    pause_platform(MEET, **WHY)
    assert ask(Platform.ZOOM).status == "DEPLOYING"


def test_a_pause_can_have_an_end():
    until = timezone.now() + timedelta(hours=1)
    pause_platform(MEET, until=until, **WHY)
    bot = ask()
    assert (bot.status, current_pause(MEET).paused_until) == ("QUEUED", until)
    Pool.objects.update(paused_until=timezone.now())
    assert current_pause(MEET) is None
    sweep_queue()
    assert status_of(bot) == "DEPLOYING"


def test_a_pause_keeps_what_else_is_set_for_the_pool():
    Pool.objects.create(platform=MEET, max_size=7)
    pause_platform(MEET, **WHY)
    resume_platform(MEET, **WHY)
    assert Pool.objects.get().max_size == 7


def test_what_is_not_paused_cannot_be_resumed():
    assert not resume_platform(MEET, **WHY)
