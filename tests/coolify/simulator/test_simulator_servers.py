"""Several servers: each with its own build places, queue, images and reachability."""

import pytest

from coolify.simulator.settings import server_uuids
from tests.simulated_coolify import IMAGE, NEVER, PlainApi, simulated_coolify, wait_until

FIRST, SECOND = TWO = server_uuids(2)
two = pytest.mark.parametrize("simulator", [{"servers": TWO}], indirect=True)
two_slow = pytest.mark.parametrize(
    "simulator",
    [{"servers": TWO, "cold_pull_seconds": NEVER, "agent_seconds": NEVER}],
    indirect=True,
)
two_unreported = pytest.mark.parametrize(
    "simulator", [{"servers": TWO, "agent_seconds": NEVER, "boot_seconds": NEVER}], indirect=True
)


def shown(api, uuid):
    return api.get(f"/servers/{uuid}").json()


# What Coolify says about a server


@two
def test_a_server_is_shown_as_in_the_list(api):
    assert [shown(api, uuid) for uuid in TWO] == api.get("/servers").json()
    assert shown(api, SECOND)["name"] == "server-2"
    assert "id" not in shown(api, SECOND)


@pytest.mark.parametrize("suffix", ["", "/resources", "/destinations", "/docker-cleanup"])
def test_an_unknown_server_is_not_found(api, suffix):
    response = api.get(f"/servers/nothing{suffix}")
    assert (response.status_code, response.json()) == (404, {"message": "Server not found."})


@two
def test_resources_are_the_applications_of_one_server(api):
    uuid = api.create("here", server_uuid=SECOND)
    api.create("elsewhere")
    [resource] = api.get(f"/servers/{SECOND}/resources").json()
    assert (resource["uuid"], resource["name"]) == (uuid, "here")
    assert (resource["type"], resource["status"]) == ("application", "exited:unhealthy")
    assert isinstance(resource["id"], int)


def test_resources_are_much_smaller_than_applications(api):
    """213 bytes each in a real Coolify: this is the cheap way to observe a server."""
    for number in range(20):
        api.create(f"pool-google-meet-{number:03}")
    assert len(api.get(f"/servers/{FIRST}/resources").content) < 20 * 250


@pytest.mark.parametrize("simulator", [{"application_bytes": 5_200}], indirect=True)
def test_applications_may_be_as_large_as_in_a_real_coolify(api):
    """1.57 MB for 300 of them, in a real Coolify."""
    for number in range(3):
        api.create(f"pool-google-meet-{number:03}")
    size = len(api.get("/applications").content)
    assert 3 * 5_100 < size < 3 * 5_300


def test_destinations_tell_whether_a_choice_is_needed(api):
    api.control.change_server(destinations=["one", "two"])
    listed = api.get(f"/servers/{FIRST}/destinations").json()
    assert [each["uuid"] for each in listed] == ["one", "two"]
    assert {each["server_uuid"] for each in listed} == {FIRST}


def test_clean_up_is_forced_every_night_by_default(api):
    settings = api.get(f"/servers/{FIRST}/docker-cleanup").json()
    assert settings["force_docker_cleanup"] is True
    assert settings["docker_cleanup_frequency"] == "0 0 * * *"
    assert settings["disable_application_image_retention"] is False


def test_clean_up_settings_can_be_changed(api):
    path = f"/servers/{FIRST}/docker-cleanup"
    assert api.patch(path, json={"force_docker_cleanup": False}).status_code == 200
    assert api.get(path).json()["force_docker_cleanup"] is False
    assert api.patch(path, json={"surprise": 1}).status_code == 422


def test_clean_up_settings_are_unknown_before_4_3_0(api):
    api.control.change(version="4.2.9")
    assert api.get(f"/servers/{FIRST}/docker-cleanup").status_code == 404


@two
def test_limits_are_changed_for_one_server(api):
    changes = {"concurrent_builds": 5, "deployment_queue_limit": 7}
    response = api.patch(f"/servers/{SECOND}", json=changes)
    assert (response.status_code, response.json()) == (201, {"uuid": SECOND})
    limits = [
        (each["settings"]["concurrent_builds"], each["settings"]["deployment_queue_limit"])
        for each in api.get("/servers").json()
    ]
    assert limits == [(2, 25), (5, 7)]


@pytest.mark.parametrize("changes", [{"concurrent_builds": 0}, {"speed": 3}])
def test_a_wrong_change_is_refused(api, changes):
    response = api.patch(f"/servers/{FIRST}", json=changes)
    assert response.status_code == 422
    assert list(response.json()["errors"]) == list(changes)


# Each server by itself


@two_slow
def test_a_full_queue_concerns_one_server(api):
    api.control.change_server(server=SECOND, deployment_queue_limit=1)
    for number in range(3):
        api.start(api.create(f"full-{number}", server_uuid=SECOND))
    missing = api.start(api.create("late", server_uuid=SECOND))
    made = api.start(api.create("other"))
    assert api.get(f"/deployments/{missing}").status_code == 404
    assert api.get(f"/deployments/{made}").status_code == 200


@two
def test_each_server_has_its_own_images(api):
    for uuid in TWO:
        api.run(api.create(server_uuid=uuid))
    assert api.control.record()["coldPulls"] == 2
    api.control.warm_image("other/bot:1")
    api.control.warm_image("other/bot:1", server=SECOND)
    api.control.prune_images(server=FIRST)
    images = [each["cached_images"] for each in api.control.state()["servers"]]
    assert images == [[f"{IMAGE}:1"], [f"{IMAGE}:1", "other/bot:1"]]


@two_unreported
def test_a_server_that_is_cut_off_affects_no_other(api):
    here, there = api.create("here"), api.create("there", server_uuid=SECOND)
    api.run(here)
    api.run(there)
    api.control.set_reachable(False, server=SECOND)
    assert [each["is_reachable"] for each in api.get("/servers").json()] == [True, False]
    functional = [
        api.get(f"/applications/{uuid}").json()["server_status"] for uuid in (here, there)
    ]
    assert functional == [True, False]
    failed = api.start(api.create("late", server_uuid=SECOND))
    wait_until(lambda: api.deployment_status(failed) == "failed")
    api.run(api.create("fine"))


@two_unreported
def test_a_server_that_returns_is_used_again(api):
    uuid = api.create(server_uuid=SECOND)
    api.control.set_reachable(False, server=SECOND)
    api.control.set_reachable(True, server=SECOND)
    assert shown(api, SECOND)["is_reachable"] is True
    api.run(uuid)


@two_unreported
def test_coolify_may_notice_late_that_a_server_is_cut_off(api):
    api.control.set_reachable(False, server=SECOND, noticed=False)
    assert shown(api, SECOND)["is_reachable"] is True
    failed = api.start(api.create(server_uuid=SECOND))
    wait_until(lambda: api.deployment_status(failed) == "failed")
    api.control.report_statuses()
    assert shown(api, SECOND)["is_reachable"] is False


@two_unreported
def test_a_server_may_be_reachable_and_yet_not_usable(api):
    uuid = api.create(server_uuid=SECOND)
    api.control.change_server(server=SECOND, usable=False)
    assert (shown(api, SECOND)["is_reachable"], shown(api, SECOND)["is_usable"]) == (True, False)
    assert api.get(f"/applications/{uuid}").json()["server_status"] is False


def test_servers_can_be_added_to_a_saved_state(tmp_path):
    state = str(tmp_path / "coolify.json")
    with simulated_coolify(state_file=state):
        pass
    with simulated_coolify(state_file=state, servers=TWO) as simulator:
        api = PlainApi(simulator)
        assert [each["uuid"] for each in api.get("/servers").json()] == TWO
        api.close()
