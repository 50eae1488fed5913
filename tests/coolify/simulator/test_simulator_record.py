import pytest

from coolify.simulator.record import (
    bots_in_two_containers,
    bots_in_two_meetings,
    meetings_cut_short,
)
from tests.simulated_coolify import NEVER, wait_until

ENDLESS = {"meetingSeconds": NEVER}


def launch(api, botpool, name, *, bot):
    uuid = api.create(name)
    api.set_bot_data(uuid, botpool.data(bot=bot, simulate=ENDLESS))
    api.run(uuid)
    wait_until(lambda: api.running(uuid)[0]["in_call_since"])
    return uuid


def stop(api, uuid):
    api.stop(uuid)
    wait_until(lambda: not api.running(uuid))


def test_the_record_of_a_container(api, botpool):
    uuid = launch(api, botpool, "slot", bot=5)
    stop(api, uuid)
    [shown] = api.control.containers()
    assert (shown["bot_id"], shown["epoch"], shown["application_uuid"]) == ("5", 1, uuid)
    assert (shown["image"], shown["cold"], shown["end_reason"]) == (
        "registry.example/bot:1",
        True,
        "stopped",
    )
    assert shown["started_at"] < shown["past_lives"][0]["joinedAt"] < shown["ended_at"]


def test_the_record_contains_no_secrets(api, botpool):
    launch(api, botpool, "slot", bot=5)
    assert "token-5" not in str(api.control.record())


def test_two_containers_of_one_bot_are_found(api, botpool):
    for name in ("first", "second"):
        launch(api, botpool, name, bot=5)
    launch(api, botpool, "third", bot=6)
    assert bots_in_two_containers(api.control.containers()) == ["5"]
    assert bots_in_two_meetings(api.control.containers()) == ["5"]


def test_one_container_after_the_other_is_fine(api, botpool):
    stop(api, launch(api, botpool, "first", bot=5))
    launch(api, botpool, "second", bot=5)
    assert bots_in_two_containers(api.control.containers()) == []
    assert bots_in_two_meetings(api.control.containers()) == []


def test_a_released_container_beside_the_real_one_joins_no_meeting(api, botpool):
    launch(api, botpool, "first", bot=5)
    botpool.released = True
    second = api.create("second")
    api.set_bot_data(second, botpool.data(bot=5))
    api.run(second)
    wait_until(lambda: api.running(second)[0]["past_lives"])
    assert bots_in_two_containers(api.control.containers()) == ["5"]
    assert bots_in_two_meetings(api.control.containers()) == []


def test_a_meeting_cut_short_is_found(api, botpool):
    stop(api, launch(api, botpool, "slot", bot=5))
    assert [each["bot_id"] for each in meetings_cut_short(api.control.containers())] == ["5"]


@pytest.mark.parametrize("simulator", [{"shortest_heartbeat": 0.02}], indirect=True)
def test_a_bot_that_was_told_to_leave_was_not_cut_short(api, botpool):
    uuid = launch(api, botpool, "slot", bot=5)
    botpool.should_leave = True
    wait_until(lambda: "DONE" in botpool.statuses())
    stop(api, uuid)
    assert meetings_cut_short(api.control.containers()) == []


def test_a_bot_told_to_leave_when_it_joins_never_joined(api, botpool):
    botpool.should_leave = True
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data(simulate=ENDLESS))
    api.run(uuid)
    wait_until(lambda: api.running(uuid)[0]["past_lives"])
    assert api.running(uuid)[0]["past_lives"][0]["joinedAt"] is None
    assert set(botpool.statuses()) == {"JOINING_CALL"}
