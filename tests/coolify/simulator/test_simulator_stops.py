"""What a status is worth: stops that lie, late statuses, busy workers."""

import pytest

from tests.simulated_coolify import IMAGE, NEVER, wait_until

# The agent runs only when a test asks for it, and bots never boot.
QUIET = {"agent_seconds": NEVER, "boot_seconds": NEVER}
quiet = pytest.mark.parametrize("simulator", [QUIET], indirect=True)
EXITED, RUNNING, DEGRADED = "exited:unhealthy", "running:unknown", "degraded:unhealthy"


def running_application(api, **fields):
    uuid = api.create(**fields)
    api.run(uuid)
    assert api.status(uuid) == RUNNING
    return uuid


# Stops


@quiet
def test_a_stop_that_docker_refuses_writes_exited_and_the_next_check_running(api):
    uuid = running_application(api)
    api.control.refuse_stops()
    api.stop(uuid)
    wait_until(lambda: api.status(uuid) == EXITED)
    assert len(api.running(uuid)) == 1
    api.control.report_statuses()
    assert api.status(uuid) == RUNNING


@pytest.mark.parametrize("simulator", [{"heartbeat_seconds": 100}], indirect=True)
def test_the_bot_of_a_refused_stop_keeps_calling(api, botpool):
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data(simulate={"meetingSeconds": NEVER}))
    api.run(uuid)
    api.control.refuse_stops()
    api.stop(uuid)
    wait_until(lambda: ("stop", uuid) not in api.jobs())
    before = botpool.heartbeats()
    wait_until(lambda: botpool.heartbeats() > before + 1)


@quiet
def test_a_stop_may_be_refused_on_one_server_only(api):
    api.control.add_server("second")
    here, there = running_application(api), running_application(api, server_uuid="second")
    api.control.refuse_stops(server="second")
    api.stop(here)
    api.stop(there)
    wait_until(lambda: not api.running(here))
    wait_until(lambda: api.status(there) == EXITED)
    assert len(api.running(there)) == 1


@quiet
def test_a_stop_on_a_server_that_is_not_functional_does_nothing(api):
    uuid = running_application(api)
    api.control.set_reachable(False)
    response = api.post(f"/applications/{uuid}/stop")
    assert response.json() == {"message": "Application stopping request queued."}
    wait_until(lambda: ("stop", uuid) not in api.jobs())
    assert api.status(uuid) == RUNNING
    assert len(api.running(uuid)) == 1


@quiet
def test_a_stop_before_coolify_notices_the_dead_server_writes_exited(api):
    uuid = running_application(api)
    api.control.set_reachable(False, noticed=False)
    api.stop(uuid)
    wait_until(lambda: api.status(uuid) == EXITED)
    assert len(api.running(uuid)) == 1


# Statuses


@pytest.mark.parametrize("simulator", [QUIET | {"soonest_status_seconds": NEVER}], indirect=True)
def test_a_deployment_is_finished_before_its_status_is_written(api):
    uuid = api.create()
    deployment = api.start(uuid)
    wait_until(lambda: api.deployment_status(deployment) == "finished")
    assert api.status(uuid) == EXITED
    assert len(api.running(uuid)) == 1


@pytest.mark.parametrize(
    "simulator",
    [{"stop_seconds": NEVER, "agent_seconds": 10, "boot_seconds": NEVER}],
    indirect=True,
)
def test_statuses_wait_for_a_free_worker(api):
    """Four stops keep all workers busy: neither a check nor the end of a deployment is seen."""
    uuid = running_application(api)
    api.control.set_status(uuid, EXITED)
    wait_until(lambda: api.status(uuid) == RUNNING)
    for _ in range(4):
        api.stop(uuid)
    api.control.set_status(uuid, EXITED)
    wait_until(lambda: ("check", "") in api.jobs())
    assert api.status(uuid) == EXITED


@pytest.mark.parametrize(
    "simulator", [QUIET | {"boot_seconds": 3, "degraded_seconds": NEVER}], indirect=True
)
def test_an_application_that_vanishes_after_restarts_is_degraded(api):
    uuid = api.create(max_restart_count=0)  # without BOT_DATA: it exits again and again
    api.run(uuid)
    api.control.warm_image(f"{IMAGE}:1")
    wait_until(lambda: api.running(uuid)[0]["lives"] > 1)
    api.control.report_statuses()
    api.control.lose_container(uuid)
    api.control.report_statuses()
    assert api.status(uuid) == DEGRADED


@pytest.mark.parametrize("simulator", [{"degraded_seconds": 500}], indirect=True)
def test_a_degraded_application_is_exited_in_the_end(api):
    uuid = api.create(max_restart_count=0)
    api.run(uuid)
    wait_until(lambda: api.get(f"/applications/{uuid}").json()["restart_count"] > 0)
    api.control.lose_container(uuid)
    wait_until(lambda: api.status(uuid) == EXITED)


@quiet
def test_the_last_container_of_a_server_without_proxy_is_missed_late(api):
    api.control.change_server(proxy=False)
    uuid = running_application(api)
    api.control.lose_container(uuid)
    seen = []
    for _ in range(4):
        api.control.report_statuses()
        seen.append(api.status(uuid))
    assert seen == [RUNNING] * 3 + [EXITED]


@quiet
def test_with_a_proxy_a_vanished_container_is_missed_at_once(api):
    uuid = running_application(api)
    api.control.lose_container(uuid)
    api.control.report_statuses()
    assert api.status(uuid) == EXITED
