"""The image rule, step by step: a start may come in between any two steps."""

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


def test_a_late_deployment_with_a_warm_image_leads_no_pull(deployment, warm):
    assert choose_leaders() == 0


def test_no_deployment_waits_for_a_pull_that_does_not_exist(deployment, warm):
    note_who_waits()
    deployment.refresh_from_db()
    assert not deployment.waited_for_image


def test_a_deployment_says_that_it_waits_for_a_pull(deployment):
    request_bot(
        BotRequest(meeting_url="https://meet.google.com/abc-defg-hij", platform="google-meet"),
        actor="test",
    )
    assert choose_leaders() == 1
    note_who_waits()
    waits = Deployment.objects.order_by("id").values_list("waited_for_image", "reason")
    assert list(waits) == [
        (False, "Pulls the image for all deployments that wait for it"),
        (True, "Another deployment is pulling the image"),
    ]
