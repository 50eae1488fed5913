"""The choice of a server for a new slot."""

import pytest

from servers.placement import Candidate, choose_server


def chosen(*candidates: dict) -> str | None:
    return choose_server(Candidate(**each) for each in candidates)


@pytest.mark.parametrize("state", ["unreachable", "cordoned", "draining", "removed"])
def test_a_server_that_is_out_of_service_gets_no_slot(state):
    assert chosen({"uuid": "a", "state": state}) is None
    assert chosen({"uuid": "a", "state": state}, {"uuid": "b", "slots": 90}) == "b"


def test_no_server_no_choice():
    assert chosen() is None


def test_a_degraded_server_is_the_last_resort():
    assert chosen({"uuid": "a", "state": "degraded"}, {"uuid": "b", "slots": 9}) == "b"
    assert chosen({"uuid": "a", "state": "degraded"}) == "a"


def test_a_full_server_gets_no_slot():
    assert chosen({"uuid": "a", "slots": 3, "most_slots": 3}) is None
    assert chosen({"uuid": "a", "slots": 2, "most_slots": 3}) == "a"


def test_the_image_decides_among_servers_that_can_build():
    assert chosen({"uuid": "a"}, {"uuid": "b", "image_is_warm": True, "slots": 5}) == "b"


def test_a_server_without_a_free_build_place_comes_later_although_it_has_the_image():
    assert chosen({"uuid": "a", "image_is_warm": True, "builds": 2}, {"uuid": "b"}) == "b"


def test_cold_servers_are_chosen_by_free_build_places_and_then_by_slots():
    assert chosen({"uuid": "a", "builds": 1}, {"uuid": "b", "slots": 7}) == "b"
    assert chosen({"uuid": "a", "slots": 2}, {"uuid": "b", "slots": 1}) == "b"


def test_of_equals_the_first_is_chosen():
    assert chosen({"uuid": "b"}, {"uuid": "a"}) == "b"
