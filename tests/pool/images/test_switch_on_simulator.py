"""A changed image, against three simulated servers: pulled everywhere before a bot uses it."""

import pytest
from django.conf import settings as current

from bots.models import Bot
from bots.status import BotStatus, Platform
from coolify.simulator.settings import server_uuids
from pool.controller.prepulls.work import look_after_images
from pool.controller.servers import look_after_servers
from pool.images.rollout import restore_image
from slots.images import PlatformImage, Prepull
from slots.models import Deployment, Slot
from tests.pool_under_test import PoolUnderTest

THREE = server_uuids(3)
NEW = "registry.example/bot:2.0"
three_servers = pytest.mark.parametrize("pool", [{"servers": THREE}], indirect=True)

pytestmark = pytest.mark.django_db(transaction=True)


def name_new_image() -> None:
    current.BOT_IMAGES = {**current.BOT_IMAGES, Platform.GOOGLE_MEET: NEW}


def running(pool: PoolUnderTest, number: int) -> list[Bot]:
    bots = [pool.request() for _ in range(number)]
    pool.until(lambda: pool.all_run(bots))
    return bots


def images(bots: list[Bot]) -> set[str]:
    deployments = Deployment.objects.filter(bot__in=[bot.pk for bot in bots])
    return set(deployments.values_list("image", flat=True))


def looked_after(happened):
    def check():
        look_after_images()
        return happened()

    return check


def pulls(pool: PoolUnderTest) -> list[dict]:
    return pool.control.record()["pulls"]


def warmers(pool: PoolUnderTest) -> list[str]:
    applications = pool.control.state()["applications"]
    return [each["name"] for each in applications if "warmer" in each["name"]]


@three_servers
def test_a_good_image_takes_over_without_a_cold_start_and_can_be_restored(pool: PoolUnderTest):
    look_after_servers(), look_after_images()
    old = current.BOT_IMAGES[Platform.GOOGLE_MEET]
    running(pool, 3)
    name_new_image()
    during = [pool.request() for _ in range(3)]
    pool.until(looked_after(lambda: PlatformImage.objects.get(platform="google-meet").image == NEW))
    pool.until(looked_after(lambda: pool.all_run(during) and not warmers(pool)))
    assert images(during) == {old}
    after = running(pool, 3)
    assert images(after) == {NEW}
    # No bot pulled it: each server did so once, for a pre-pull.
    cold = [each for each in pulls(pool) if each["image"] == NEW and each["cold"]]
    assert sorted(each["server_uuid"] for each in cold) == sorted(THREE)
    assert not Deployment.objects.filter(image=NEW, leader=True).exists()
    assert not any(each["overlapped"] for each in pulls(pool))
    assert not Slot.objects.filter(name__contains="warmer").exists()

    assert restore_image("google-meet", reason="It crashes", actor="anna") == old
    look_after_images()
    assert images(running(pool, 2)) == {old}


@three_servers
def test_an_image_that_cannot_be_pulled_fails_no_bot(pool: PoolUnderTest):
    look_after_servers(), look_after_images()
    old = current.BOT_IMAGES[Platform.GOOGLE_MEET]
    running(pool, 3)
    pool.control.add_fault("pull_fails", image=NEW)
    name_new_image()
    bots = [pool.request() for _ in range(4)]
    failed = Prepull.objects.filter(image=NEW, status="failed")
    pool.until(looked_after(lambda: failed.count() == 3 and pool.all_run(bots)))
    current.IMAGE_SWITCH_TIMEOUT = current.POLL_INTERVAL * 0  # over: it is not used cold either
    look_after_images()
    assert images([*bots, *running(pool, 2)]) == {old}
    assert not Bot.objects.filter(status=BotStatus.FAILED).exists()
    pool.until(looked_after(lambda: not warmers(pool)))
