"""The image rule, pass by pass: a start may come in between any two statements of it."""

import pytest

from pool.controller.images import choose_leaders, note_who_waits
from pool.request import BotRequest, request_bot
from slots.deployment import Deployment, WarmImage


@pytest.fixture
def deployment(db) -> Deployment:
    request_bot(
        BotRequest(meeting_url="https://meet.google.com/abc-defg-hij", platform="google-meet"),
        actor="test",
    )
    return Deployment.objects.get()


@pytest.fixture
def warm(deployment):
    WarmImage.objects.create(image=deployment.image, server_uuid=deployment.server_uuid)


def test_whoever_comes_after_the_warm_ones_were_let_through_leads_no_pull(deployment, warm):
    assert choose_leaders() == 0


def test_nobody_is_said_to_wait_for_a_pull_that_is_not_there(deployment, warm):
    note_who_waits()
    deployment.refresh_from_db()
    assert not deployment.waited_for_image


def test_whoever_waits_for_a_pull_is_told_so(deployment):
    request_bot(
        BotRequest(meeting_url="https://meet.google.com/abc-defg-hij", platform="google-meet"),
        actor="test",
    )
    assert choose_leaders() == 1
    note_who_waits()
    waits = Deployment.objects.order_by("id").values_list("waited_for_image", "reason")
    assert list(waits) == [
        (False, "Pulls the image for all that wait for it"),
        (True, "Another deployment pulls the image"),
    ]
