import time

import pytest
import requests

from tests.simulated_coolify import IMAGE, NEVER, wait_until


def test_an_error_occurs_the_given_number_of_times(api):
    api.control.answer_with(503, path="/applications$", times=2)
    codes = [api.get("/applications").status_code for _ in range(3)]
    assert codes == [503, 503, 200]


def test_an_error_occurs_only_on_the_given_path(api):
    api.control.answer_with(500, method="GET", path="/applications$")
    assert api.get("/version").status_code == 200
    assert api.create()
    assert api.get("/applications").status_code == 500


def test_an_error_may_occur_by_chance(api):
    api.control.answer_with(500, probability=0.5)
    codes = {api.get("/version").status_code for _ in range(60)}
    assert codes == {200, 500}


def test_an_error_may_have_a_body_and_retry_after(api):
    body = {"message": "Validation failed.", "errors": "no"}
    api.control.answer_with(422, body=body, retry_after=7)
    response = api.get("/version")
    assert response.json() == body
    assert response.headers["Retry-After"] == "7"


def test_a_gateway_error_comes_from_the_proxy_as_html(api):
    api.control.answer_with(502)
    assert "<html>" in api.get("/version").text


def test_a_request_answered_with_an_error_has_no_effect(api):
    api.control.answer_with(500, method="POST", times=1)
    with pytest.raises(AssertionError):
        api.create()
    assert api.get("/applications").json() == []


def test_latency_delays_the_answer(api):
    api.control.slow_down(0.3, path="/version")
    began = time.monotonic()
    api.get("/version")
    assert time.monotonic() - began >= 0.3


def test_a_request_reset_before_it_is_read_has_no_effect(api):
    api.control.reset_before(method="POST", times=1)
    with pytest.raises(requests.ConnectionError):
        api.create()
    assert api.get("/applications").json() == []


def test_a_request_whose_answer_is_lost_takes_effect(api):
    api.control.lose_answer(method="POST", times=1)
    with pytest.raises(requests.ConnectionError):
        api.create("made")
    assert [each["name"] for each in api.get("/applications").json()] == ["made"]


def test_an_html_page_may_have_status_200(api):
    api.control.answer_html(path="/applications")
    response = api.get("/applications")
    assert (response.status_code, response.headers["Content-Type"][:9]) == (200, "text/html")


def test_lists_may_be_short_or_empty(api):
    for name in ("a", "b", "c"):
        api.create(name)
    fault = api.control.shorten_lists(2, path="/applications$")
    assert len(api.get("/applications").json()) == 2
    api.control.remove_fault(fault)
    api.control.empty_lists(path="/applications$")
    assert api.get("/applications").json() == []


def test_all_faults_can_be_cleared(api):
    api.control.answer_with(500)
    assert [each["kind"] for each in api.control.faults()] == ["error"]
    api.control.clear_faults()
    assert api.control.faults() == []
    assert api.get("/version").status_code == 200


def test_an_unknown_fault_is_refused_with_a_list_of_faults(api):
    with pytest.raises(ValueError, match="choose from"):
        api.control.add_fault("gremlins")


def test_an_unknown_setting_is_refused(api):
    with pytest.raises(ValueError, match="cannot be changed"):
        api.control.change(speed=2)


@pytest.mark.parametrize(
    ("kind", "status"), [("stuck_queued", "queued"), ("stuck_in_progress", "in_progress")]
)
def test_a_deployment_may_be_stuck_forever(api, kind, status):
    api.control.add_fault(kind, times=1)
    stuck = api.start(api.create("stuck"))
    other = api.start(api.create("other"))
    wait_until(lambda: api.deployment_status(other) == "finished")
    assert api.deployment_status(stuck) == status
    assert api.post(f"/deployments/{stuck}/cancel").status_code == 200


def test_hung_deployments_hold_every_build_place(api):
    api.control.add_fault("stuck_in_progress", times=2)
    hung = [api.start(api.create(f"hung-{number}")) for number in range(2)]
    wait_until(lambda: sum(each["running"] for each in api.control.state()["jobs"]) == 2)
    waiting = api.start(api.create("waiting"))
    assert api.deployment_status(waiting) == "queued"
    api.post(f"/deployments/{hung[0]}/cancel")
    wait_until(lambda: api.deployment_status(waiting) == "finished")


def test_a_deployment_may_fail_after_its_pull(api):
    api.control.add_fault("deployment_fails")
    deployment = api.start(api.create())
    wait_until(lambda: api.deployment_status(deployment) == "failed")
    assert api.control.containers() == []


def test_a_failing_pull_leaves_the_image_cold(api):
    api.control.add_fault("pull_fails", times=1)
    uuid = api.create()
    deployment = api.start(uuid)
    wait_until(lambda: api.deployment_status(deployment) == "failed")
    api.run(uuid)
    assert [each["cold"] for each in api.control.record()["pulls"]] == [True, True]


@pytest.mark.parametrize("simulator", [{"cold_pull_seconds": NEVER}], indirect=True)
def test_a_restart_of_coolify_fails_every_active_deployment(api):
    deployments = [api.start(api.create(f"slot-{number}")) for number in range(4)]
    api.control.restart_coolify()
    assert {api.deployment_status(each) for each in deployments} == {"failed"}
    assert api.control.state()["jobs"] == []


def test_coolify_answers_502_while_it_restarts(api):
    api.control.restart_coolify(outage_seconds=2)
    assert api.get("/version").status_code == 502
    wait_until(lambda: api.get("/version").status_code == 200)


def test_containers_outlive_a_restart_of_coolify(api):
    uuid = api.create()
    api.run(uuid)
    api.control.restart_coolify()
    assert len(api.running(uuid)) == 1


def test_an_application_may_be_deleted_by_hand(api):
    uuid = api.create()
    api.run(uuid)
    api.control.delete_application(uuid)
    assert api.get(f"/applications/{uuid}").status_code == 404
    assert api.post(f"/applications/{uuid}/stop").status_code == 404
    assert api.running(uuid) == []


def test_a_container_may_survive_its_application(api):
    uuid = api.create()
    api.run(uuid)
    api.control.add_fault("container_survives")
    api.delete(f"/applications/{uuid}")
    wait_until(lambda: api.get(f"/applications/{uuid}").status_code == 404)
    assert len(api.running(uuid)) == 1


def test_a_stop_may_be_ignored(api):
    uuid = api.create()
    api.run(uuid)
    api.control.add_fault("stop_ignored", times=1)
    api.stop(uuid)
    wait_until(lambda: not api.control.state()["jobs"])
    assert len(api.running(uuid)) == 1
    api.stop(uuid)
    wait_until(lambda: not api.running(uuid))


@pytest.mark.parametrize("simulator", [{"agent_seconds": NEVER}], indirect=True)
def test_statuses_may_freeze(api):
    uuid = api.create()
    api.control.set_status(uuid, "running:unknown")
    freeze = api.control.add_fault("statuses_freeze")
    api.control.report_statuses()
    assert api.status(uuid) == "running:unknown"
    api.control.remove_fault(freeze)
    api.control.report_statuses()
    assert api.status(uuid) == "exited:unhealthy"


@pytest.mark.parametrize("simulator", [{"agent_seconds": NEVER}], indirect=True)
def test_a_container_may_be_overlooked_for_one_report(api):
    uuid = api.create()
    api.run(uuid)
    api.control.add_fault("container_overlooked", times=1)
    api.control.report_statuses()
    assert api.status(uuid) == "exited:unhealthy"
    assert len(api.running(uuid)) == 1
    api.control.report_statuses()
    assert api.status(uuid) != "exited:unhealthy"


def test_images_may_be_pruned_by_hand(api):
    api.control.warm_image(f"{IMAGE}:1")
    api.control.prune_images()
    api.run(api.create())
    assert api.control.record()["coldPulls"] == 1


def test_a_crash_needs_a_container(api):
    with pytest.raises(ValueError, match="No container"):
        api.control.crash_container(api.create())


def test_requests_are_counted_by_route(api):
    for name in ("first", "second"):
        api.start(api.create(name))
    counts = api.control.requests()["counts"]
    assert counts["POST /applications/{uuid}/start 200"] == 2


def test_requests_are_counted_and_kept(api):
    api.get("/version", headers={"X-Correlation-Id": "abc"})
    api.get("/nothing")
    requests_made = api.control.requests()
    assert requests_made["total"] == 2
    assert requests_made["counts"] == {"GET /version 200": 1, "GET /nothing 404": 1}
    assert requests_made["recent"][0]["correlationId"] == "abc"
