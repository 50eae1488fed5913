"""From an assigned slot to a bot in its meeting and back, on the simulated Coolify."""

from datetime import timedelta

import pytest

from bots.moves import Outcome
from bots.status import BotStatus, Platform
from coolify.client import Coolify
from pool.controller.delete import why_not_to_delete
from pool.lifecycle import end_bot
from slots.deployment import Deployment, WarmImage
from slots.models import Slot, SlotTransition

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "client")


def test_a_bot_goes_from_request_to_its_meeting(pool):
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]) and WarmImage.objects.exists())
    slot = Slot.objects.get()
    assert (slot.status, slot.name) == ("busy", "pool-google-meet-001")
    deployment = Deployment.objects.get()
    assert (deployment.status, deployment.leader, deployment.pulling) == ("finished", True, False)
    assert WarmImage.objects.get().image == deployment.image


def test_a_bot_that_is_done_leaves_an_idle_slot_without_a_container(pool):
    bot = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([bot], BotStatus.DONE))
    pool.until(pool.all_idle)
    assert pool.control.state()["containers"] == []


def test_the_next_bot_reuses_the_application(pool):
    first = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([first], BotStatus.DONE) and pool.all_idle())
    second = pool.request()
    pool.until(lambda: pool.all_run([second]))
    first.refresh_from_db()
    second.refresh_from_db()
    assert second.coolify_service_uuid == first.coolify_service_uuid
    assert Deployment.objects.filter(leader=True).count() == 1


def test_twelve_bots_at_once_on_an_empty_pool_pull_the_image_once(pool):
    bots = [pool.request() for _ in range(12)]
    pool.until(lambda: pool.all_run(bots))
    record = pool.control.record()
    assert (record["coldPulls"], record["overlappingColdPulls"]) == (1, 0)
    assert Deployment.objects.filter(leader=True).count() == 1
    assert all(len(pool.containers_of(bot)) == 1 for bot in bots)


def test_a_new_image_reaches_slots_that_exist_and_is_pulled_once(pool, settings):
    settings.BOT_IMAGES = {**settings.BOT_IMAGES, Platform.GOOGLE_MEET: "registry.example/bot:1.0"}
    first = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([first], BotStatus.DONE) and pool.all_idle())
    settings.BOT_IMAGES = {**settings.BOT_IMAGES, Platform.GOOGLE_MEET: "registry.example/bot:2.0"}

    bots = [pool.request() for _ in range(4)]
    pool.until(lambda: pool.all_run(bots))

    pulls = pool.control.record()["pulls"]
    cold = [pull["image"] for pull in pulls if pull["cold"]]
    assert cold == ["registry.example/bot:1.0", "registry.example/bot:2.0"]
    assert [pull["image"] for pull in pulls[-4:]] == ["registry.example/bot:2.0"] * 4
    assert set(Slot.objects.values_list("image", flat=True)) == {"registry.example/bot:2.0"}


def test_different_images_are_pulled_side_by_side(pool):
    bots = [pool.request(Platform.GOOGLE_MEET), pool.request(Platform.ZOOM)]
    pool.until(lambda: pool.all_run(bots))
    assert Deployment.objects.filter(leader=True).count() == 2


def test_when_the_leader_fails_exactly_one_of_the_others_leads(pool):
    pool.control.add_fault("pull_fails", times=1)
    bots = [pool.request() for _ in range(4)]
    pool.until(lambda: pool.all_run(bots))
    assert Deployment.objects.filter(leader=True).count() == 2
    assert Deployment.objects.filter(status="failed").count() == 1


def test_a_failed_deployment_places_its_bot_again_and_keeps_its_history(pool):
    pool.control.add_fault("pull_fails", times=1)
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    bot.refresh_from_db()
    assert bot.placements == 2
    assert Slot.objects.filter(status="error").count() == 1
    assert [e.to_status for e in bot.events.order_by("id")][:4] == [
        "PENDING",
        "DEPLOYING",
        "QUEUED",
        "DEPLOYING",
    ]


def test_a_bot_that_no_slot_can_start_fails_as_infrastructure(pool):
    pool.control.add_fault("pull_fails")
    bot = pool.request()
    pool.until(lambda: pool.count([bot], BotStatus.FAILED))
    bot.refresh_from_db()
    assert (bot.failure_kind, bot.placements) == ("infrastructure", 3)
    assert "failed" in bot.failure_reason


def test_a_cancelled_bot_that_was_deploying_leaves_no_container(pool):
    bot = pool.request()
    pool.until(lambda: Deployment.objects.filter(status="in_progress").exists())
    end_bot(bot, CANCELLED)
    pool.until(pool.all_idle)
    assert pool.control.state()["containers"] == []


def test_a_bot_cancelled_before_its_start_costs_no_call(pool):
    bot = pool.request()
    end_bot(bot, CANCELLED)
    pool.until(pool.all_idle)
    assert Deployment.objects.get().start_asked_at is None
    assert pool.control.state()["applications"] == []


def test_a_lost_answer_to_the_creation_does_not_make_a_second_application(pool):
    pool.control.lose_answer(path="/applications/dockerimage$", times=1)
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    assert len(pool.control.state()["applications"]) == 1


def test_a_pull_that_hangs_and_cannot_be_cancelled_does_not_block_others_for_ever(pool, settings):
    settings.DEPLOY_TIMEOUT = timedelta(seconds=8)
    settings.DEPLOY_GRACE_PERIOD = timedelta(seconds=1)
    pool.control.add_fault("stuck_in_progress", times=1)
    pool.control.answer_with(500, method="POST", path=r"/cancel$")
    hangs = pool.request()
    pool.until(lambda: Deployment.objects.filter(status="in_progress").exists())
    others = [pool.request() for _ in range(3)]

    pool.until(lambda: pool.all_run([hangs, *others]))

    first = Deployment.objects.filter(bot=hangs).earliest("id")
    assert first.status == "timed_out"
    assert why_not_to_delete(first.slot) == ""


def test_a_bot_cancelled_while_its_environment_is_written_is_not_started(pool, monkeypatch):
    bot = pool.request()
    write = Coolify.set_envs

    def cancelled_meanwhile(self, *arguments, **options):
        write(self, *arguments, **options)
        end_bot(bot, CANCELLED)

    monkeypatch.setattr(Coolify, "set_envs", cancelled_meanwhile)
    pool.until(pool.all_idle)
    assert "POST /applications/{uuid}/start 200" not in pool.control.requests()["counts"]


def test_an_application_made_for_a_bot_that_left_is_recorded_against_the_current_slot(
    pool, monkeypatch
):
    bot = pool.request()
    create = Coolify.create_application

    def cancelled_meanwhile(self, **arguments):
        end_bot(bot, CANCELLED)
        return create(self, **arguments)

    monkeypatch.setattr(Coolify, "create_application", cancelled_meanwhile)
    pool.until(pool.all_idle)
    [made] = SlotTransition.objects.filter(reason="Application created")
    assert (made.from_status, made.epoch, made.bot_id) == ("stopping", 2, None)
    assert Slot.objects.get().coolify_uuid == made.coolify_uuid


@pytest.mark.parametrize("pool", [{"speed": 100}], indirect=True)
def test_a_lost_answer_to_the_start_does_not_start_it_twice(pool):
    """The next try comes after a second, when the image is still being pulled."""
    pool.control.lose_answer(path="/start$", times=1)
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    assert len(pool.containers_of(bot)) == 1
    calls = pool.control.requests()["counts"]
    assert sum(count for call, count in calls.items() if "/start" in call) == 1


def test_a_server_error_at_the_start_is_tried_again(pool):
    pool.control.answer_with(502, path="/start$", times=2)
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    bot.refresh_from_db()
    assert bot.placements == 1


def test_429_while_watching_is_not_a_failed_deployment(pool):
    bot = pool.request()
    pool.until(lambda: Deployment.objects.filter(status="in_progress").exists())
    pool.control.answer_with(429, path="/applications$", times=3)
    pool.until(lambda: pool.all_run([bot]))
    bot.refresh_from_db()
    assert bot.placements == 1


def test_an_application_deleted_behind_our_back_is_made_again(pool):
    first = pool.request(meetingSeconds=1)
    pool.until(lambda: pool.count([first], BotStatus.DONE) and pool.all_idle())
    old = Slot.objects.get().coolify_uuid
    pool.control.delete_application(old)
    second = pool.request()
    pool.until(lambda: pool.all_run([second]))
    slot = Slot.objects.get()
    assert slot.coolify_uuid != old
    assert slot.name == "pool-google-meet-001"
    assert slot.transitions.filter(reason__contains=old).exists()


@pytest.mark.parametrize("pool", [{"deployment_queue_limit": 1}], indirect=True)
def test_an_accepted_start_without_a_deployment_is_tried_again_later(pool, settings):
    pool.control.warm_image(settings.BOT_IMAGES[Platform.GOOGLE_MEET])
    bots = [pool.request() for _ in range(6)]
    pool.until(lambda: pool.all_run(bots))
    assert all(len(pool.containers_of(bot)) == 1 for bot in bots)


def test_empty_and_short_lists_stop_no_bot(pool):
    bots = [pool.request() for _ in range(3)]
    pool.until(lambda: pool.all_run(bots))
    pool.control.empty_lists(path="/applications$")
    more = [pool.request() for _ in range(2)]
    for _ in range(20):
        pool.tend()
    pool.control.clear_faults()
    pool.until(lambda: pool.all_run([*bots, *more]))


def test_a_deployment_that_hangs_times_out_and_its_bot_is_placed_again(pool, settings):
    settings.DEPLOY_TIMEOUT = timedelta(seconds=6)
    pool.control.add_fault("stuck_in_progress", times=1)
    bot = pool.request()
    pool.until(lambda: pool.all_run([bot]))
    assert Deployment.objects.filter(status="timed_out").count() == 1
    assert len(pool.containers_of(bot)) == 1
