"""When an image counts as being on a server, and what ends that."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from api.coolify_webhook import CLEAN_UP
from bots.models import Bot
from pool.controller.images import (
    choose_leaders,
    doubt_images,
    let_warm_ones_through,
    mark_image_cold,
    note_coolify_end,
    notice_pulls,
)
from slots.deployment import Deployment, WarmImage
from slots.models import Slot
from tests.factories import BotFactory, DeploymentFactory, SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_clean_up(settings):
    settings.IMAGE_CLEANUP_TIMES = []


def warm(**fields) -> WarmImage:
    return WarmImage.objects.create(image="bot:1", server_uuid="server-1", **fields)


def start(**fields) -> Deployment:
    return DeploymentFactory(**fields)


def building(**fields) -> Deployment:
    started = {"start_asked_at": Now(), "building_since": Now() - timedelta(minutes=3)}
    return start(status="in_progress", **{**started, **fields})


def state() -> str:
    return WarmImage.objects.get().state


def test_a_doubted_image_is_pulled_by_one_leader():
    warm(trusted_until=Now())
    start(), start()
    assert let_warm_ones_through() == []
    assert choose_leaders() == 1
    assert choose_leaders() == 0


def test_an_image_in_use_is_warm_whatever_the_clean_up_does():
    warm(trusted_until=Now())
    bot = BotFactory(status="IN_CALL", previous_status="JOINING_CALL")
    SlotFactory(status="busy", previous_status="deploying", assigned_bot=bot, image="bot:1")
    start()
    assert len(let_warm_ones_through()) == 1


def test_a_finished_start_is_evidence_until_the_next_clean_up(settings):
    soon = timezone.now() + timedelta(hours=2)
    settings.IMAGE_CLEANUP_TIMES = [timedelta(hours=soon.hour, minutes=soon.minute)]
    note_coolify_end(building(leader=True, pulling=True), "finished")
    image = WarmImage.objects.get()
    assert (image.state, image.evidence) == ("warm", "pull")
    assert timedelta(minutes=110) < image.trusted_until - timezone.now() < timedelta(minutes=120)


def test_a_failed_start_ends_warmth_and_a_good_one_brings_it_back():
    warm()
    note_coolify_end(building(), "failed")
    assert (state(), "failed" in WarmImage.objects.get().cold_reason) == ("cold", True)
    note_coolify_end(building(), "finished")
    assert state() == "warm"


def test_a_start_that_takes_as_long_as_a_pull_is_one():
    warm()
    first, second = building(), building()
    notice_pulls()
    assert state() == "cold"
    assert list(Deployment.objects.filter(pulling=True)) == [first]
    start()
    assert (let_warm_ones_through(), choose_leaders()) == ([], 0)
    note_coolify_end(first, "finished")
    assert len(let_warm_ones_through()) == 1
    assert not Deployment.objects.filter(pulling=True).exists()
    assert Deployment.objects.get(pk=second.pk).status == "in_progress"


@pytest.mark.parametrize(
    "fields", [{"building_since": Now()}, {"queued_in_coolify": True}, {"coolify_ended_at": Now()}]
)
def test_a_start_of_the_usual_length_is_no_pull(fields):
    warm()
    building(**fields)
    notice_pulls()
    assert state() == "warm"


def test_a_reported_clean_up_leaves_doubt_about_the_images_of_its_server(client, settings):
    settings.COOLIFY_SERVER_UUIDS = ["server-1"]
    warm()
    address = f"/api/v1/coolify/webhook/{settings.COOLIFY_WEBHOOK_SECRET}"
    told = {"event": f"{CLEAN_UP}_success", "server_uuid": "server-1"}
    assert client.post(address, told, content_type="application/json").status_code == 204
    assert state() == "doubted"
    assert doubt_images("another") == 0


def test_marking_cold_twice_changes_nothing_twice():
    warm()
    assert mark_image_cold("bot:1", "server-1", reason="Pruned")
    assert not mark_image_cold("bot:1", "server-1", reason="Again")
    assert WarmImage.objects.get().cold_reason == "Pruned"
    assert Slot.objects.count() == Bot.objects.count() == 0
