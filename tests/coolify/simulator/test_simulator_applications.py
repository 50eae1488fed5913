import pytest

from tests.simulated_coolify import (
    IMAGE,
    NEVER,
    PlainApi,
    new_application,
    simulated_coolify,
    wait_until,
)


def test_a_new_application_is_listed_as_exited(api):
    uuid = api.create("pool-zoom-001", description="[IDLE] Available")
    [shown] = api.get("/applications").json()
    assert shown["uuid"] == uuid
    assert shown["status"] == "exited:unhealthy"
    assert shown["description"] == "[IDLE] Available"
    assert shown["docker_registry_image_tag"] == "1"
    assert shown["destination"]["server"]["uuid"] == "simulated-server"
    assert shown["server_status"] is True
    assert "project_uuid" not in shown
    assert "settings" not in shown
    assert "id" not in shown


def test_timestamps_have_whole_seconds(api):
    shown = api.get(f"/applications/{api.create()}").json()
    assert shown["updated_at"].endswith(".000000Z")


def test_one_application_comes_with_its_settings(api):
    shown = api.get(f"/applications/{api.create()}").json()
    assert shown["settings"]["is_consistent_container_name_enabled"] is True


def test_names_are_not_unique_and_the_list_is_ordered_by_name(api):
    for name in ("b", "a", "b"):
        api.create(name)
    assert [each["name"] for each in api.get("/applications").json()] == ["a", "b", "b"]


def test_the_list_can_be_filtered_by_tag(api):
    api.create("with", tags=["pool"])
    api.create("without")
    shown = api.get("/applications", params={"tag": "pool"}).json()
    assert [each["name"] for each in shown] == ["with"]


def test_a_domain_is_generated_unless_switched_off(api):
    body = new_application()
    del body["autogenerate_domain"]
    assert api.post("/applications/dockerimage", json=body).json()["domains"].startswith("http")
    refused = api.post("/applications/dockerimage", json=new_application())
    assert refused.json()["domains"] is None


def test_the_tag_is_latest_by_default(api):
    body = new_application()
    del body["docker_registry_image_tag"]
    uuid = api.post("/applications/dockerimage", json=body).json()["uuid"]
    assert api.get(f"/applications/{uuid}").json()["docker_registry_image_tag"] == "latest"


@pytest.mark.parametrize("missing", ["project_uuid", "server_uuid", "docker_registry_image_name"])
def test_required_fields(api, missing):
    body = new_application()
    del body[missing]
    response = api.post("/applications/dockerimage", json=body)
    assert response.status_code == 422
    assert list(response.json()["errors"]) == [missing]


def test_one_of_the_environment_fields_is_required(api):
    body = new_application()
    del body["environment_name"]
    response = api.post("/applications/dockerimage", json=body)
    assert response.status_code == 422
    assert "environment_uuid" in response.json()["message"]


def test_the_environment_may_be_given_by_its_uuid(api):
    [environment] = api.get("/projects/simulated-project/environments").json()
    body = new_application(environment_uuid=environment["uuid"])
    del body["environment_name"]
    assert api.post("/applications/dockerimage", json=body).status_code == 201


def test_ports_were_required_before_4_1_2():
    with simulated_coolify(version="4.1.1") as simulator:
        api = PlainApi(simulator)
        body = new_application()
        del body["ports_exposes"]
        response = api.post("/applications/dockerimage", json=body)
        api.close()
    assert list(response.json()["errors"]) == ["ports_exposes"]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("project_uuid", "Project not found."),
        ("environment_name", "Environment not found."),
        ("server_uuid", "Server not found."),
    ],
)
def test_an_unknown_place_is_not_found(api, field, message):
    response = api.post("/applications/dockerimage", json=new_application(**{field: "nowhere"}))
    assert (response.status_code, response.json()) == (404, {"message": message})


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("surprise", 1, "This field is not allowed."),
        ("name", "x" * 256, "The name field must not be greater than 255 characters."),
        ("description", 5, "The description field must be a string."),
        ("limits_cpus", 2, "The limits cpus field must be a string."),
        ("stop_grace_period", 3601, "The stop grace period field must be between 1 and 3600."),
        ("stop_grace_period", True, "The stop grace period field must be a integer."),
    ],
)
def test_a_wrong_field_is_refused_by_name(api, field, value, complaint):
    response = api.post("/applications/dockerimage", json=new_application(**{field: value}))
    assert response.status_code == 422
    assert response.json() == {"message": "Validation failed.", "errors": {field: [complaint]}}


HASH = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("given", "name", "tag"),
    [
        ("registry.example:5000/bot:2", "registry.example:5000/bot", "2"),
        ("registry.example:5000/bot", "registry.example:5000/bot", "latest"),
        (f"team/bot@sha256:{HASH}", "team/bot", f"sha256-{HASH}"),
    ],
)
def test_a_new_image_name_is_split(api, given, name, tag):
    body = new_application(docker_registry_image_name=given)
    del body["docker_registry_image_tag"]
    uuid = api.post("/applications/dockerimage", json=body).json()["uuid"]
    shown = api.get(f"/applications/{uuid}").json()
    assert shown["docker_registry_image_name"] == name
    assert shown["docker_registry_image_tag"] == tag


def test_a_changed_image_name_must_not_contain_a_tag(api):
    """As in Coolify, this error is a string instead of a list."""
    change = {"docker_registry_image_name": "registry.example:5000/bot:2"}
    response = api.patch(f"/applications/{api.create()}", json=change)
    assert response.status_code == 422
    assert isinstance(response.json()["errors"]["docker_registry_image_name"], str)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("docker_registry_image_name", "registry.example/Bot"),
        ("docker_registry_image_name", "bot image"),
        ("docker_registry_image_tag", "-bad"),
        ("docker_registry_image_tag", "a/b"),
        ("docker_registry_image_tag", "x" * 129),
        ("docker_registry_image_tag", f"sha256:{HASH}"),
        ("ports_exposes", "abc"),
        ("max_restart_count", -1),
    ],
)
def test_a_wrong_value_is_refused_when_creating_and_when_changing(api, field, value):
    created = api.post("/applications/dockerimage", json=new_application(**{field: value}))
    changed = api.patch(f"/applications/{api.create()}", json={field: value})
    assert (created.status_code, changed.status_code) == (422, 422)
    assert list(created.json()["errors"]) == list(changed.json()["errors"]) == [field]


def test_a_number_may_be_given_as_text(api):
    uuid = api.create(max_restart_count="5")
    assert api.get(f"/applications/{uuid}").json()["max_restart_count"] == 5


def test_a_tag_that_is_a_digest_deploys_by_digest(api):
    uuid = api.create(docker_registry_image_tag=f"sha256-{HASH}")
    api.run(uuid)
    assert api.running(uuid)[0]["image"] == f"{IMAGE}@sha256:{HASH}"


def test_an_image_of_null_is_cleared_and_cannot_be_started(api):
    uuid = api.create()
    assert api.patch(f"/applications/{uuid}", json={"docker_registry_image_name": None}).ok
    assert api.get(f"/applications/{uuid}").json()["docker_registry_image_name"] is None
    deployment = api.start(uuid)
    wait_until(lambda: api.deployment_status(deployment) == "failed")


def test_a_new_application_was_last_online_when_coolify_was_migrated(api):
    shown = api.get(f"/applications/{api.create()}").json()
    assert shown["last_online_at"] < shown["created_at"]


def test_a_server_without_destination_is_refused(api):
    api.control.change_server(destinations=[])
    response = api.post("/applications/dockerimage", json=new_application())
    assert (response.status_code, response.json()["message"]) == (
        400,
        "Server has no destinations.",
    )


def test_a_server_with_several_destinations_needs_a_choice(api):
    api.control.change_server(destinations=["one", "two"])
    response = api.post("/applications/dockerimage", json=new_application())
    assert response.status_code == 400
    assert "multiple destinations" in response.json()["message"]
    assert api.create(destination_uuid="two")
    response = api.post("/applications/dockerimage", json=new_application(destination_uuid="typo"))
    assert response.status_code == 422


def test_with_one_destination_an_unknown_one_is_ignored(api):
    assert api.create(destination_uuid="typo")


def test_a_taken_domain_is_a_conflict(api):
    api.create("first", domains="http://bots.example")
    response = api.post(
        "/applications/dockerimage", json=new_application(domains="http://bots.example")
    )
    assert response.status_code == 409
    assert response.json()["conflicts"][0]["resource_name"] == "first"


def test_a_description_is_stripped_of_tags_and_trimmed(api):
    uuid = api.create()
    response = api.patch(f"/applications/{uuid}", json={"description": "  <b>[BUSY]</b> Bot #1 "})
    assert response.json() == {"uuid": uuid}
    assert api.get(f"/applications/{uuid}").json()["description"] == "[BUSY] Bot #1"


def test_a_description_may_be_null(api):
    uuid = api.create(description="something")
    api.patch(f"/applications/{uuid}", json={"description": None})
    assert api.get(f"/applications/{uuid}").json()["description"] is None


def test_a_description_over_255_characters_is_a_server_error(api):
    uuid = api.create(description="before")
    response = api.patch(f"/applications/{uuid}", json={"description": "x" * 256})
    assert (response.status_code, response.json()) == (500, {"message": "Server Error"})
    assert api.get(f"/applications/{uuid}").json()["description"] == "before"


def test_a_description_that_is_not_text_is_refused(api):
    response = api.patch(f"/applications/{api.create()}", json={"description": ["x"]})
    assert response.status_code == 422


@pytest.mark.parametrize("field", ["project_uuid", "server_uuid", "environment_name"])
def test_an_application_cannot_be_moved(api, field):
    response = api.patch(f"/applications/{api.create()}", json={field: "elsewhere"})
    assert response.json()["errors"] == {field: ["This field is not allowed."]}


def test_the_image_can_be_changed(api):
    uuid = api.create()
    api.patch(
        f"/applications/{uuid}",
        json={"docker_registry_image_name": "other/bot", "docker_registry_image_tag": "2"},
    )
    shown = api.get(f"/applications/{uuid}").json()
    assert shown["docker_registry_image_name"] == "other/bot"
    assert shown["docker_registry_image_tag"] == "2"


@pytest.mark.parametrize(
    ("method", "suffix"),
    [("GET", ""), ("GET", "/envs"), ("POST", "/start"), ("GET", "/logs")],
)
def test_an_unknown_application_is_not_found(api, method, suffix):
    response = api.call(method, f"/applications/nothing{suffix}")
    assert (response.status_code, response.json()) == (404, {"message": "Application not found."})


@pytest.mark.parametrize(
    ("method", "suffix"), [("DELETE", ""), ("PATCH", ""), ("PATCH", "/envs/bulk")]
)
def test_some_calls_say_so_without_a_full_stop(api, method, suffix):
    response = api.call(method, f"/applications/nothing{suffix}", json={"data": []})
    assert (response.status_code, response.json()) == (404, {"message": "Application not found"})


@pytest.mark.parametrize("simulator", [{"delete_seconds": NEVER}], indirect=True)
def test_a_deletion_is_only_queued(api):
    uuid = api.create()
    response = api.delete(f"/applications/{uuid}")
    assert response.json() == {"message": "Application deletion request queued."}
    assert api.get(f"/applications/{uuid}").status_code == 200


def test_a_deleted_application_takes_its_container_with_it(api):
    uuid = api.create()
    api.run(uuid)
    api.delete(f"/applications/{uuid}")
    wait_until(lambda: api.get(f"/applications/{uuid}").status_code == 404)
    assert api.running(uuid) == []
    assert api.control.containers()[0]["end_reason"] == "application deleted"


def test_a_deletion_prunes_images_unless_switched_off(api):
    for cleanup, cached in (("false", 1), ("true", 0)):
        uuid = api.create()
        api.run(uuid)
        api.delete(f"/applications/{uuid}", params={"docker_cleanup": cleanup})
        wait_until(lambda uuid=uuid: api.get(f"/applications/{uuid}").status_code == 404)
        assert len(api.control.state()["servers"][0]["cached_images"]) == cached


def test_servers_show_their_limits(api):
    [server] = api.get("/servers").json()
    assert server["uuid"] == "simulated-server"
    assert server["settings"]["concurrent_builds"] == 2
    assert server["settings"]["deployment_queue_limit"] == 25


@pytest.mark.parametrize("simulator", [{"servers": ["one", "two"]}], indirect=True)
def test_there_may_be_several_servers(api):
    assert [each["uuid"] for each in api.get("/servers").json()] == ["one", "two"]
    uuid = api.create(server_uuid="two")
    assert api.get(f"/applications/{uuid}").json()["destination"]["server"]["uuid"] == "two"


def test_an_unknown_project_is_not_found(api):
    response = api.get("/projects/nothing/environments")
    assert (response.status_code, response.json()) == (404, {"message": "Project not found."})
