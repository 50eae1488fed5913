"""GET /pool/pressure."""

import pytest

from pool.steering import pause_platform
from tests.queued import ask

pytestmark = pytest.mark.django_db


def pressure(api, platform="google-meet"):
    return api.get("pool/pressure").json()["platforms"][platform]


def test_room_to_grow_is_free(client_api, settings):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 2}
    found = pressure(client_api)
    assert (found["free"], found["waiting"], found["wouldPlaceNow"]) == (2, 0, True)
    ask()
    assert pressure(client_api)["free"] == 1


def test_a_full_pool_would_not_place_and_says_how_long(client_api, settings):
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 1}
    ask()
    first = pressure(client_api)
    assert (first["free"], first["waiting"], first["wouldPlaceNow"]) == (0, 0, False)
    waiter = ask()
    assert waiter.status == "QUEUED"
    second = pressure(client_api)
    assert second["waiting"] == 1
    assert second["expectedWaitMs"] > 0 and first["expectedWaitMs"] > 0


def test_a_paused_platform_would_not_place(client_api):
    pause_platform("google-meet", reason="test", actor="test")
    found = pressure(client_api)
    assert found["wouldPlaceNow"] is False and found["expectedWaitMs"] is None
    assert pressure(client_api, "zoom")["wouldPlaceNow"] is True
