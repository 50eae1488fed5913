"""Cases from other systems that only these tests cover; test_cases.py lists them all."""

from datetime import timedelta

import pytest

from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus, Platform
from pool.lifecycle import end_bot
from pool.reconciler.reconcile import reconcile
from slots.deployment import Deployment
from slots.models import Slot

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "client")


@pytest.fixture(autouse=True)
def patience(pool, settings):
    """A bot whose container does not stop within this time fails: a busy machine needs longer."""
    settings.DEPLOY_GRACE_PERIOD = timedelta(seconds=20)


def used_slot(pool):
    """An idle slot whose application has run a bot and is now `exited`."""
    bot = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([bot], BotStatus.DONE) and pool.all_idle())
    return Slot.objects.get()


def test_the_slot_said_busy_at_once(pool):
    """… although Coolify had only queued the start; the first poll saw the old `exited` and
    called it a failure."""
    used_slot(pool)
    pool.control.add_fault("stuck_queued", times=1)
    bot = pool.request()
    pool.until(lambda: Deployment.objects.filter(status="in_progress").exists())
    for _ in range(10):
        pool.tend()
        reconcile()
    slot = Slot.objects.get()
    assert (slot.status, slot.container_status) == ("deploying", "DEPLOYING")
    assert Bot.objects.get(pk=bot.pk).status == "DEPLOYING"
    assert Deployment.objects.get(bot=bot).failure_cause == ""


def test_stop_and_delete_answered_404(pool):
    """Both are normal: there is nothing left to stop."""
    bots = [pool.request(), pool.request()]
    pool.until(lambda: pool.all_run(bots))
    Slot.objects.filter(number=2).update(recreate=True)
    for slot in Slot.objects.all():
        pool.control.delete_application(slot.coolify_uuid)
    for bot in bots:
        end_bot(bot, CANCELLED)
    pool.until(pool.all_idle)
    assert not Slot.objects.exclude(coolify_uuid="").exists()
    again = pool.request()
    pool.until(lambda: pool.all_run([again]))


def test_release_failed_at_the_stop_call(pool):
    """… the slot kept its bot, and a bot that was DONE became FAILED in the clean-up."""
    pool.control.answer_with(500, path="/stop$")
    bot = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([bot], BotStatus.DONE))
    for _ in range(5):
        pool.tend()
        reconcile()
    slot = Slot.objects.get()
    assert (slot.status, slot.assigned_bot_id) == ("stopping", None)
    pool.control.clear_faults()
    pool.until(pool.all_idle)
    assert Bot.objects.get().status == "DONE"


# --- Deployments and images ---


def test_the_lock_was_held_although_the_image_had_long_been_cached(pool):
    used_slot(pool)
    bots = [pool.request() for _ in range(5)]
    pool.tend()
    assert not Deployment.objects.filter(status="waiting_for_image").exists()
    pool.until(lambda: pool.all_run(bots))
    later = Deployment.objects.filter(bot__in=bots)
    assert list(later.values_list("waited_for_image", flat=True)) == [False] * 5


def test_four_hung_deployments_blocked_every_other_one(pool, settings):
    """… for two hours. Here they time out, and their build places are free again."""
    settings.DEPLOY_TIMEOUT = timedelta(seconds=6)
    pool.control.warm_image(settings.BOT_IMAGES[Platform.GOOGLE_MEET])
    used_slot(pool)
    pool.control.add_fault("stuck_in_progress", times=4)
    bots = [pool.request() for _ in range(7)]
    pool.until(lambda: pool.all_run(bots))
    assert Deployment.objects.filter(status="timed_out").count() >= 4
    assert all(len(pool.containers_of(bot)) == 1 for bot in bots)


@pytest.mark.parametrize("pool", [{"concurrent_builds": 1, "start_seconds": 1000.0}], indirect=True)
def test_waiting_time_in_the_queue_was_counted_against_the_limit(pool, settings):
    """Nine starts of one second each, one after the other; none may take more than 8 s."""
    settings.DEPLOY_TIMEOUT = timedelta(seconds=8)
    pool.control.warm_image(settings.BOT_IMAGES[Platform.GOOGLE_MEET])
    bots = [pool.request() for _ in range(9)]
    pool.until(lambda: pool.all_run(bots))
    assert set(Bot.objects.values_list("placements", flat=True)) == {1}


def test_a_start_that_waits_in_coolifys_queue_gets_as_much_time_again(pool, settings):
    settings.DEPLOY_TIMEOUT = timedelta(seconds=5)
    pool.control.add_fault("stuck_queued", times=1)
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    stuck = Deployment.objects.get(status="timed_out")
    assert stuck.ended_at - stuck.start_asked_at > 1.75 * settings.DEPLOY_TIMEOUT
