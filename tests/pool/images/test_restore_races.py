"""The previous image is restored at the moment in which a bot gets its slot, or its place."""

from functools import partial
from types import SimpleNamespace

import pytest
from django.db import transaction
from django.db.models.functions import Now

from pool.controller.places import line_up
from pool.images.rollout import advance_rollouts, follow_environment, restore_image
from pool.request import BotRequest, request_bot
from slots.deployment import Deployment, WarmImage
from slots.images import PlatformImage
from slots.models import Slot
from tests.concurrency import at_once
from tests.controller import advance_one
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "bot:1.0", "bot:2.0"


class Coolify:
    """It accepts every start, and knows with which image."""

    def __init__(self) -> None:
        self.image = ""
        self.started: list[str] = []

    def update_application(self, uuid: str, *, image=None, **_) -> None:
        self.image = f"{image.name}:{image.tag}" if image else self.image

    def set_envs(self, *_, **__) -> None:
        pass

    def start(self, uuid: str):
        self.started.append(self.image)
        return SimpleNamespace(deployment_uuid="d-1")


@pytest.fixture
def coolify(monkeypatch, settings) -> Coolify:
    fake = Coolify()
    monkeypatch.setattr("pool.controller.advance.shared_coolify", lambda: fake)
    monkeypatch.setattr("pool.controller.advance.describe", lambda context: None)
    settings.COOLIFY_SERVER_UUIDS, settings.IMAGE_CLEANUP_TIMES = ["a"], []
    return fake


@pytest.fixture(autouse=True)
def new_image_in_use(coolify, settings) -> None:
    settings.BOT_IMAGES = {"google-meet": OLD}
    SlotFactory(server_uuid="a")
    follow_environment()
    settings.BOT_IMAGES = {"google-meet": NEW}
    follow_environment()
    for image in (OLD, NEW):
        WarmImage.objects.create(image=image, server_uuid="a", warmed_at=Now())
    advance_rollouts()
    assert PlatformImage.objects.get().image == NEW


def assign() -> Slot:
    url = "https://meet.google.com/abc-defg-hij"
    request = BotRequest(meeting_url=url, platform="google-meet")
    return request_bot(request, actor="test").slot


def restore_in_another_transaction() -> None:
    restore = partial(restore_image, "google-meet", reason="It crashes", actor="anna")
    assert at_once([restore]) == [OLD]


def test_a_bot_that_gets_its_slot_while_the_image_is_restored_starts_with_that(coolify):
    with transaction.atomic():
        slot = assign()
        restore_in_another_transaction()
    assert Deployment.objects.get().image == NEW  # neither saw the other
    advance_one(slot)
    start = Deployment.objects.get()
    assert (start.image, start.status, coolify.started) == (OLD, "in_progress", [OLD])


def test_a_start_that_has_its_place_when_the_image_is_restored_waits_for_that(coolify):
    slot = assign()
    line_up()
    assert Deployment.objects.get().status == "starting"
    restore_in_another_transaction()
    WarmImage.objects.filter(image=OLD).delete()
    advance_one(slot)
    # It is cold, so it leads the pull.
    start = Deployment.objects.get()
    assert (start.leader, start.pulling, coolify.started) == (True, True, [OLD])


@pytest.mark.parametrize("status", ["waiting_for_place", "starting"])
def test_a_start_that_leads_the_pull_of_a_rejected_image_lets_go_of_it(coolify, status):
    WarmImage.objects.filter(image=NEW).delete()
    slot = assign()
    Deployment.objects.update(status=status, leader=True, pulling=True)
    restore_in_another_transaction()
    advance_one(slot)
    start = Deployment.objects.get()
    assert (start.image, start.pulling, coolify.started) == (OLD, False, [OLD])


def test_a_start_in_line_when_a_switch_ends_keeps_the_image_that_is_warm_there(coolify, settings):
    slot = assign()
    settings.BOT_IMAGES = {"google-meet": "bot:3.0"}
    follow_environment()
    line_up()
    WarmImage.objects.create(image="bot:3.0", server_uuid="a", warmed_at=Now())
    advance_rollouts()
    assert PlatformImage.objects.get().image == "bot:3.0"
    advance_one(slot)
    assert coolify.started == [NEW]


def test_a_rejected_image_stays_so_when_the_environment_names_a_third(coolify, settings):
    slot = assign()
    line_up()
    restore_in_another_transaction()
    settings.BOT_IMAGES = {"google-meet": "bot:3.0"}
    follow_environment()
    advance_one(slot)
    assert coolify.started == [OLD]
