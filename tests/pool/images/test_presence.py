"""Asking Coolify whether a doubted image is still there."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from coolify.client.errors import CircuitOpen, NotFound
from pool.controller.prepulls.presence import confirm_doubted_image
from slots.deployment import WarmImage
from tests.factories import SlotFactory

pytestmark = pytest.mark.django_db(transaction=True)


class Coolify:
    def __init__(self, *tags: str) -> None:
        self.tags, self.asked = tags, 0

    def image_tags(self, uuid: str) -> list[str]:
        self.asked += 1
        return list(self.tags)


@pytest.fixture(autouse=True)
def doubted(settings) -> None:
    settings.IMAGE_CLEANUP_TIMES = []
    SlotFactory(image="bot:1.0")
    WarmImage.objects.create(image="bot:1.0", server_uuid="server-1", trusted_until=Now())


def test_a_listed_image_is_warm_again():
    assert confirm_doubted_image(Coolify("0.9", "1.0"))
    image = WarmImage.objects.get()
    assert (image.state, image.evidence) == ("warm", "listed")


@pytest.mark.parametrize("tags", [(), ("0.9",)])
def test_an_image_that_is_not_listed_stays_doubted_and_is_not_asked_for_again(tags):
    coolify = Coolify(*tags)
    assert not confirm_doubted_image(coolify)
    assert not confirm_doubted_image(coolify)
    assert (WarmImage.objects.get().state, coolify.asked) == ("doubted", 1)


def test_an_older_coolify_proves_nothing(monkeypatch):
    coolify = Coolify()
    error = NotFound("no such route", thing="route")
    monkeypatch.setattr(coolify, "image_tags", lambda uuid: (_ for _ in ()).throw(error))
    assert not confirm_doubted_image(coolify)
    assert WarmImage.objects.get().state == "doubted"


def test_a_question_that_was_not_sent_is_asked_soon(monkeypatch):
    coolify = Coolify("1.0")
    with monkeypatch.context() as circuit:
        error = CircuitOpen("not sent", retry_after=5.0, reason="circuit")
        circuit.setattr(coolify, "image_tags", lambda uuid: (_ for _ in ()).throw(error))
        assert not confirm_doubted_image(coolify)
    assert confirm_doubted_image(coolify)


@pytest.mark.parametrize("fields", [{"cold_since": Now()}, {"trusted_until": None}])
def test_only_doubted_images_are_asked_for(fields):
    WarmImage.objects.update(**fields)
    assert not confirm_doubted_image(coolify := Coolify("1.0"))
    assert coolify.asked == 0


def test_around_a_clean_up_coolify_is_not_asked(settings):
    now = timezone.now()
    settings.IMAGE_CLEANUP_TIMES = [timedelta(hours=now.hour, minutes=now.minute)]
    assert not confirm_doubted_image(coolify := Coolify("1.0"))
    assert coolify.asked == 0


@pytest.mark.parametrize("field", ["cold_since", "trusted_until"])
def test_evidence_that_came_during_the_call_stays(monkeypatch, field):
    def image_tags(uuid: str) -> list[str]:
        WarmImage.objects.update(**{field: Now()})
        return ["1.0"]

    coolify = Coolify()
    monkeypatch.setattr(coolify, "image_tags", image_tags)
    assert not confirm_doubted_image(coolify)
    assert WarmImage.objects.get().state != "warm"
