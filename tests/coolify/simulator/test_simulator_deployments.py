import pytest

from coolify.simulator.settings import Token
from tests.simulated_coolify import IMAGE, NEVER, PlainApi, simulated_coolify, wait_until

# Pulls never end, so deployments stay in their status.
SLOW = {"cold_pull_seconds": NEVER, "warm_pull_seconds": NEVER}
# Bots never boot, so only deployments change a status.
ASLEEP = {"boot_seconds": NEVER}
# A cold pull takes two seconds: long enough for the next call, even on a busy machine.
UNHURRIED = {"cold_pull_seconds": 2000}
unhurried = pytest.mark.parametrize("simulator", [UNHURRIED], indirect=True)
slow = pytest.mark.parametrize("simulator", [SLOW], indirect=True)


def statuses(api, deployments):
    return [api.deployment_status(each) for each in deployments]


def listed(api):
    """The active deployments, whether they come as a list or as an object."""
    shown = api.get("/deployments").json()
    return list(shown.values()) if isinstance(shown, dict) else shown


def fill(api, count):
    """Create and start that many applications; return their deployments."""
    return [api.start(api.create(f"slot-{number:02}")) for number in range(count)]


@pytest.mark.parametrize("simulator", [ASLEEP], indirect=True)
def test_a_start_leads_to_a_running_container(api):
    uuid = api.create()
    deployment = api.run(uuid)
    assert api.status(uuid) == "running:unknown"
    assert [each["deployment_uuid"] for each in api.running(uuid)] == [deployment]


@pytest.mark.parametrize("simulator", [ASLEEP], indirect=True)
def test_only_a_health_check_makes_a_container_healthy(api):
    uuid = api.create(health_check_enabled=True)
    api.run(uuid)
    assert api.status(uuid) == "running:healthy"


@slow
def test_a_start_queues_a_deployment(api):
    response = api.post(f"/applications/{api.create()}/start")
    assert response.json()["message"] == "Deployment request queued."
    shown = api.get(f"/deployments/{response.json()['deployment_uuid']}").json()
    assert shown["application_name"] == "slot"
    assert shown["server_name"] == "server-1"
    assert shown["finished_at"] is None


def test_an_unknown_deployment_is_not_found(api):
    response = api.get("/deployments/nothing")
    assert (response.status_code, response.json()) == (404, {"message": "Deployment not found."})


@slow
def test_two_builds_run_at_a_time(api):
    assert statuses(api, fill(api, 4)) == ["in_progress"] * 2 + ["queued"] * 2


@slow
def test_each_server_has_its_own_build_places(api):
    api.control.add_server("second")
    fill(api, 2)
    deployment = api.start(api.create(server_uuid="second"))
    assert api.deployment_status(deployment) == "in_progress"


@slow
def test_an_instant_deployment_skips_the_build_places(api):
    fill(api, 2)
    deployment = api.start(api.create(), instant_deploy="true")
    assert api.deployment_status(deployment) == "in_progress"


@slow
def test_a_new_application_may_be_deployed_instantly(api):
    fill(api, 2)
    uuid = api.create(instant_deploy=True)
    [deployment] = api.get(f"/deployments/applications/{uuid}").json()["deployments"]
    assert deployment["status"] == "in_progress"


def test_waiting_deployments_run_in_order(api):
    api.control.change_server(concurrent_builds=1)
    deployments = fill(api, 4)
    wait_until(lambda: statuses(api, deployments) == ["finished"] * 4)
    started = [each["deployment_uuid"] for each in api.control.containers()]
    assert started == deployments


@slow
def test_a_second_start_is_skipped_without_a_uuid(api):
    uuid = api.create()
    api.start(uuid)
    response = api.post(f"/applications/{uuid}/start")
    assert response.status_code == 200
    assert response.json() == {"message": "Deployment already queued for this commit."}


@slow
def test_a_full_queue_returns_a_uuid_that_does_not_exist(api):
    api.control.change_server(deployment_queue_limit=1)
    fill(api, 3)
    uuid = api.create()
    for verb in ("start", "restart"):
        missing = api.post(f"/applications/{uuid}/{verb}").json()["deployment_uuid"]
        assert api.get(f"/deployments/{missing}").status_code == 404
    assert api.get(f"/deployments/applications/{uuid}").json() == {"count": 0, "deployments": []}


@slow
def test_the_queue_holds_25(api):
    deployments = fill(api, 28)
    found = [api.get(f"/deployments/{each}").status_code for each in deployments]
    assert found == [200] * 27 + [404]


@slow
def test_only_the_deploy_endpoint_says_that_the_queue_is_full(api):
    api.control.change_server(deployment_queue_limit=1)
    fill(api, 3)
    response = api.post("/deploy", params={"uuid": api.create()})
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "60"


@slow
def test_a_skipped_deploy_returns_a_uuid_that_does_not_exist(api):
    uuid = api.create()
    found = []
    for _ in range(2):
        [shown] = api.post("/deploy", params={"uuid": uuid}).json()["deployments"]
        assert shown["resource_uuid"] == uuid
        found.append(api.get(f"/deployments/{shown['deployment_uuid']}").status_code)
    assert found == [200, 404]


@slow
def test_the_list_shows_only_what_is_active(api):
    deployments = fill(api, 3)
    api.post(f"/deployments/{deployments[0]}/cancel")
    assert [each["deployment_uuid"] for each in listed(api)] == deployments[1:]


@slow
def test_the_list_becomes_an_object_with_keys_out_of_order(api):
    """PostgreSQL moves the rows that change, and PHP keeps the places as keys."""
    deployments = fill(api, 4)
    assert isinstance(api.get("/deployments").json(), list)
    api.post(f"/deployments/{deployments[0]}/cancel")  # the third one is in progress now
    shown = api.get("/deployments").json()
    assert list(shown) == ["0", "2", "1"]
    assert [each["deployment_uuid"] for each in shown.values()] == deployments[1:]


@slow
def test_a_deployment_names_its_application_in_its_link(api):
    uuid = api.create()
    deployment = api.start(uuid)
    [shown] = listed(api)
    assert shown["deployment_url"].endswith(f"/application/{uuid}/deployment/{deployment}")
    assert "application" not in shown


@slow
def test_a_single_deployment_contains_its_application(api):
    uuid = api.create()
    shown = api.get(f"/deployments/{api.start(uuid)}").json()
    assert shown["application"]["uuid"] == uuid


def test_a_deployment_of_a_deleted_application_is_not_found(api):
    uuid = api.create()
    deployment = api.run(uuid)
    api.control.delete_application(uuid)
    assert api.get(f"/deployments/{deployment}").status_code == 404
    assert api.post(f"/deployments/{deployment}/cancel").status_code == 404


def test_the_history_of_an_application_is_newest_first(api):
    uuid = api.create()
    deployments = [api.run(uuid) for _ in range(3)]
    shown = api.get(f"/deployments/applications/{uuid}", params={"skip": 1, "take": 1}).json()
    assert shown["count"] == 3
    assert [each["deployment_uuid"] for each in shown["deployments"]] == [deployments[1]]


@slow
@pytest.mark.parametrize("position", [0, 2])
def test_a_deployment_can_be_cancelled(api, position):
    """Cancel one in progress, whose build place the next one takes, and one in the queue."""
    deployments = fill(api, 4)
    response = api.post(f"/deployments/{deployments[position]}/cancel")
    assert response.json()["status"] == "cancelled-by-user"
    assert api.deployment_status(deployments[position]) == "cancelled-by-user"
    assert statuses(api, deployments).count("in_progress") == 2


@slow
def test_a_cancelled_deployment_starts_nothing(api):
    uuid = api.create()
    api.post(f"/deployments/{api.start(uuid)}/cancel")
    assert api.control.state()["jobs"] == []
    assert [each["outcome"] for each in api.control.record()["pulls"]] in ([], ["cancelled"])


def test_a_finished_deployment_cannot_be_cancelled(api):
    deployment = api.run(api.create())
    response = api.post(f"/deployments/{deployment}/cancel")
    assert response.status_code == 400
    assert response.json() == {
        "message": "Deployment cannot be cancelled. Current status: finished"
    }


@pytest.mark.parametrize(
    "simulator", [{"cold_pull_seconds": NEVER, "ssh_seconds": 500}], indirect=True
)
def test_a_cancellation_waits_for_ssh_if_the_server_refuses_it(api):
    deployment = api.start(api.create())
    wait_until(lambda: api.control.record()["pulls"])
    api.control.set_reachable(False, noticed=False)
    response = api.post(f"/deployments/{deployment}/cancel")
    assert response.json()["status"] == "cancelled-by-user"
    assert response.elapsed.total_seconds() >= 0.5


@slow
def test_a_cancellation_may_answer_500_and_take_effect(api):
    api.control.add_fault("cancel_answers_500", times=1)
    deployment = api.start(api.create())
    assert api.post(f"/deployments/{deployment}/cancel").status_code == 500
    assert api.deployment_status(deployment) == "cancelled-by-user"


# Images


def test_the_first_pull_is_cold_and_the_next_is_warm(api):
    for name in ("first", "second"):
        api.run(api.create(name))
    assert [each["cold"] for each in api.control.record()["pulls"]] == [True, False]
    assert [each["cold"] for each in api.control.containers()] == [True, False]


@unhurried
def test_two_cold_pulls_at_once_are_both_full_downloads(api):
    deployments = fill(api, 2)
    wait_until(lambda: statuses(api, deployments) == ["finished"] * 2)
    record = api.control.record()
    assert record["coldPulls"] == 2
    assert record["overlappingColdPulls"] == 2


def test_a_cold_pull_takes_much_longer_than_a_warm_start(api):
    for name in ("first", "second"):
        api.run(api.create(name))
    cold, warm = (each["ended_at"] - each["started_at"] for each in api.control.record()["pulls"])
    assert cold >= 0.42
    assert warm < cold


def test_each_tag_is_a_different_image(api):
    api.run(api.create("first"))
    api.run(api.create("second", docker_registry_image_tag="2"))
    assert api.control.record()["coldPulls"] == 2


def test_force_ignores_the_image_cache(api):
    uuid = api.create()
    api.run(uuid)
    api.run(uuid, force="true")
    assert api.control.record()["coldPulls"] == 2


@pytest.mark.parametrize("simulator", [ASLEEP], indirect=True)
def test_a_failed_pull_fails_the_deployment_even_if_the_image_is_cached(api):
    uuid = api.create(is_consistent_container_name_enabled=False)
    api.run(uuid)
    api.control.add_fault("pull_fails", image=f"{IMAGE}:1", times=1)
    deployment = api.start(uuid)
    wait_until(lambda: api.deployment_status(deployment) == "failed")
    assert api.status(uuid) == "running:unknown"


# Stopping


def test_a_stop_removes_the_container_and_writes_exited(api):
    uuid = api.create()
    api.run(uuid)
    response = api.post(f"/applications/{uuid}/stop", params={"docker_cleanup": "false"})
    assert response.json() == {"message": "Application stopping request queued."}
    wait_until(lambda: api.status(uuid) == "exited:unhealthy")
    assert api.running(uuid) == []


@unhurried
def test_a_stop_does_not_cancel_a_pending_deployment(api):
    uuid = api.create()
    deployment = api.start(uuid)
    api.stop(uuid)
    wait_until(lambda: api.deployment_status(deployment) == "finished")
    assert len(api.running(uuid)) == 1


@pytest.mark.parametrize("simulator", [{"start_seconds": 0, "stop_seconds": 3000}], indirect=True)
def test_a_stop_removes_the_container_that_exists_when_it_runs(api):
    """The stop was requested for the first container and removes the second."""
    api.control.warm_image(f"{IMAGE}:1")
    uuid = api.create()
    api.run(uuid)
    api.stop(uuid)
    second = api.run(uuid)
    wait_until(lambda: not api.running(uuid))
    ended = [(each["deployment_uuid"], each["end_reason"]) for each in api.control.containers()]
    assert ended[1] == (second, "stopped")


@pytest.mark.parametrize(
    "simulator", [{"stop_seconds": NEVER, "agent_seconds": NEVER}], indirect=True
)
def test_stops_and_deployments_share_four_workers(api):
    running = api.create("running")
    api.run(running)
    for _ in range(4):
        api.stop(running)
    deployment = api.start(api.create("waits"))
    assert api.deployment_status(deployment) == "in_progress"
    jobs = api.control.state()["jobs"]
    assert [(each["kind"], each["running"]) for each in jobs] == [("stop", True)] * 4 + [
        ("deploy", False)
    ]


# Starting a running application


def test_a_consistent_name_replaces_the_container_without_overlap(api):
    uuid = api.create()
    api.run(uuid)
    api.run(uuid)
    first, second = api.control.containers()
    assert first["ended_at"] <= second["started_at"]


@pytest.mark.parametrize("simulator", [ASLEEP], indirect=True)
def test_with_a_consistent_name_the_old_container_is_stopped_before_the_pull(api):
    uuid = api.create()
    api.run(uuid)
    api.control.add_fault("pull_fails")
    deployment = api.start(uuid)
    wait_until(lambda: api.deployment_status(deployment) == "failed")
    assert api.running(uuid) == []


def test_without_a_consistent_name_two_containers_overlap(api):
    uuid = api.create(is_consistent_container_name_enabled=False)
    api.run(uuid)
    api.run(uuid)
    first, second = api.control.containers()
    assert second["started_at"] < first["ended_at"]
    assert first["end_reason"] == "replaced by a new deployment"
    assert len(api.running(uuid)) == 1


def test_a_restart_is_a_full_deployment(api):
    uuid = api.create()
    api.run(uuid)
    response = api.post(f"/applications/{uuid}/restart")
    assert response.json()["message"] == "Restart request queued."
    deployment = response.json()["deployment_uuid"]
    wait_until(lambda: api.deployment_status(deployment) == "finished")
    assert len(api.control.record()["pulls"]) == 2


def test_variables_apply_at_the_next_deployment(api, botpool):
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data(bot=1))
    api.run(uuid)
    api.set_bot_data(uuid, botpool.data(bot=2))
    assert [each["bot_id"] for each in api.running(uuid)] == ["1"]
    api.run(uuid)
    assert [each["bot_id"] for each in api.running(uuid)] == ["2"]


# Logs


def test_logs_of_a_running_application(api, botpool):
    uuid = api.create()
    api.set_bot_data(uuid, botpool.data(bot=7))
    api.run(uuid)
    assert "starting as bot 7" in api.get(f"/applications/{uuid}/logs").json()["logs"]


def test_logs_need_a_running_container(api):
    response = api.get(f"/applications/{api.create()}/logs", params={"lines": 10})
    assert (response.status_code, response.json()) == (
        400,
        {"message": "Application is not running."},
    )


def test_logs_have_100_lines_by_default(simulator, api):
    uuid = api.create()
    api.run(uuid)
    with simulator.world.lock:
        [container] = simulator.world.containers_of(uuid)
        container.log = [f"2026-11-16T09:30:00.000Z line {number}" for number in range(300)]
    logs = {lines: _lines(api, uuid, lines=lines) for lines in (None, 5, 20_000)}
    assert {asked: len(found) for asked, found in logs.items()} == {None: 100, 5: 5, 20_000: 300}
    assert logs[5][-1] == "line 299"


def _lines(api, uuid, **query):
    return api.get(f"/applications/{uuid}/logs", params=query).json()["logs"].splitlines()


def test_the_log_of_a_deployment_needs_read_sensitive():
    plain = Token("5|plain", frozenset({"read"}))
    with simulated_coolify(tokens=[Token(), plain]) as simulator:
        owner, reader = PlainApi(simulator), PlainApi(simulator, plain.plain)
        deployment = owner.run(owner.create())
        assert "Container started." in owner.get(f"/deployments/{deployment}").json()["logs"]
        assert "logs" not in reader.get(f"/deployments/{deployment}").json()
        owner.close()
        reader.close()


@pytest.mark.parametrize("query", [{"lines": "abc"}, {"surprise": "1"}])
def test_a_wrong_query_for_logs_is_ignored(api, query):
    uuid = api.create()
    api.run(uuid)
    assert api.get(f"/applications/{uuid}/logs", params=query).status_code == 200


def test_logs_are_a_server_error_while_ssh_is_refused(api):
    uuid = api.create()
    api.run(uuid)
    api.control.set_reachable(False)
    assert api.get(f"/applications/{uuid}/logs").status_code == 500
