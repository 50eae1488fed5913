"""What the client sends, and how it reads good answers."""

from datetime import UTC, datetime

import pytest

from coolify.client import Coolify
from coolify.client.errors import MalformedAnswer, NotRunning, Refused
from coolify.client.image import Image
from coolify.client.resources import ApplicationStatus
from core.correlation import correlated

APPLICATION = {
    "uuid": "app-1",
    "name": "pool-zoom-001",
    "description": "[IDLE] Available",
    "status": "running:healthy",
    "docker_registry_image_name": "ghcr.io/team/bot",
    "docker_registry_image_tag": "v2",
    "environment_id": 3,
    "restart_count": 2,
    "last_online_at": "2026-08-01 10:00:00",
    "created_at": "2026-07-01T10:00:00.000000Z",
    "updated_at": "2026-08-01T10:00:00.000000Z",
    "server_status": True,
    "destination": {"server": {"uuid": "server-1", "name": "bots-1"}},
    "a_field_of_tomorrow": {"x": 1},
}


# --- Every request --------------------------------------------------------------------------


def test_every_request_asks_for_json_with_the_token(scripted, client):
    scripted.answers([])
    client.applications()
    assert scripted.last.headers["Accept"] == "application/json"
    assert scripted.last.headers["Authorization"] == "Bearer 7|the-secret-token"


def test_the_correlation_id_is_sent_along(scripted, client):
    scripted.answers([])
    with correlated("bot-42\r\nX-Evil: 1"):
        client.applications()
    assert scripted.last.headers["X-Correlation-Id"] == "bot-42X-Evil: 1"
    client.applications()
    assert "X-Correlation-Id" not in scripted.last.headers


def test_a_netrc_file_does_not_replace_the_token(scripted, client, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    scripted.answers([])
    client.applications()
    assert scripted.last.headers["Authorization"] == "Bearer 7|the-secret-token"


def test_the_connection_is_reused(scripted, client):
    scripted.answers([])
    for _ in range(3):
        client.applications()
    assert len({asked.connection for asked in scripted.asked}) == 1


def test_a_trailing_slash_in_the_address_does_no_harm(scripted):
    scripted.answers([])
    Coolify(scripted.url + "/", "t").applications()
    assert scripted.last.path == "/applications"


@pytest.mark.parametrize("address", ["", "coolify.example", "ftp://coolify.example/api/v1"])
def test_an_invalid_address_is_refused(address):
    with pytest.raises(ValueError, match="https://host/api/v1"):
        Coolify(address, "t")


def test_the_token_is_not_in_its_representation(client):
    assert "secret" not in repr(client)


@pytest.mark.parametrize("uuid", ["", "."])
def test_an_empty_uuid_never_becomes_a_call_on_the_collection(client, uuid):
    with pytest.raises(ValueError, match="not a uuid"):
        client.delete_application(uuid)


def test_a_uuid_cannot_change_the_path(scripted, client):
    scripted.answers(APPLICATION)
    client.application("a/../b?c")
    assert scripted.last.path == "/applications/a%2F..%2Fb%3Fc"


# --- Reading --------------------------------------------------------------------------------


def test_the_version_is_text_not_json(scripted, client):
    scripted.answers(b"4.3.11")
    assert client.version() == "4.3.11"


@pytest.mark.parametrize("text", [b"4.0.0-beta.420", b'"4.3.11"\n', b"v4.1.2"])
def test_other_spellings_of_a_version_are_understood(scripted, client, text):
    scripted.answers(text)
    assert client.version().strip("v").startswith("4.")


def test_a_page_is_not_a_version(scripted, client):
    scripted.answers(b"<html>Log in</html>")
    with pytest.raises(MalformedAnswer):
        client.version()


def test_all_fields_of_an_application_are_read(scripted, client):
    scripted.answers([APPLICATION])
    (application,) = client.applications()
    assert application.uuid == "app-1"
    assert application.status.is_running
    assert application.restart_count == 2
    assert application.server_reachable is True
    assert application.server_uuid == "server-1"
    assert application.created_at == datetime(2026, 7, 1, 10, tzinfo=UTC)


def test_an_application_with_nothing_but_a_uuid_is_understood(scripted, client):
    scripted.answers({"uuid": "app-1"})
    application = client.application("app-1")
    assert application.description is None
    assert application.server_reachable is None
    assert application.status == ApplicationStatus(state="unknown", health="unknown")


def test_fields_of_the_wrong_kind_count_as_missing(scripted, client):
    odd = {"uuid": "a", "description": {}, "restart_count": "x"}
    scripted.answers({**odd, "status": 7, "destination": [], "server_status": "yes"})
    application = client.application("a")
    assert application.description is application.restart_count is None
    assert application.status.state == "unknown"
    assert application.server_reachable is None


@pytest.mark.parametrize(
    ("text", "state", "health", "running"),
    [
        ("running:healthy", "running", "healthy", True),
        ("running:unhealthy", "running", "unhealthy", True),
        ("running:unknown", "running", "unknown", True),
        ("running:healthy:excluded", "running", "healthy:excluded", True),
        ("running (healthy)", "running", "healthy", True),
        ("running", "running", "unknown", True),
        ("exited:unhealthy", "exited", "unhealthy", False),
        ("restarting:unknown", "restarting", "unknown", False),
        ("starting:unknown", "starting", "unknown", False),
        ("paused:unknown", "paused", "unknown", False),
        ("degraded:unhealthy", "degraded", "unhealthy", False),
        ("", "unknown", "unknown", False),
        (None, "unknown", "unknown", False),
    ],
)
def test_each_status_is_understood(text, state, health, running):
    status = ApplicationStatus.parse(text)
    assert (status.state, status.health, status.is_running) == (state, health, running)


def test_a_status_says_whether_the_container_is_gone_looping_or_broken():
    assert ApplicationStatus.parse("exited:unhealthy").is_exited
    assert ApplicationStatus.parse("restarting:unknown").is_restarting
    assert ApplicationStatus.parse("degraded:unhealthy").is_failed
    assert not ApplicationStatus.parse("running:unhealthy").is_failed


def test_a_server_reports_how_many_builds_run_at_once(scripted, client):
    settings = {"concurrent_builds": 2, "deployment_queue_limit": 25, "is_reachable": True}
    scripted.answers([{"uuid": "s", "name": "bots-1", "ip": "10.0.0.1", "settings": settings}])
    (server,) = client.servers()
    assert (server.concurrent_builds, server.deployment_queue_limit) == (2, 25)
    assert server.is_reachable is True
    assert server.is_usable is None


def test_the_resources_of_a_server_have_a_uuid_and_a_status(scripted, client):
    """Databases and services are among them, and some have no status."""
    item = {"id": 1, "uuid": "app-1", "name": "pool-zoom-001", "status": "running:unknown"}
    scripted.answers([item, {"uuid": "database-1", "type": "standalone-redis", "status": None}])
    first, second = client.server_resources("server-1")
    assert scripted.last.path == "/servers/server-1/resources"
    assert (first.uuid, first.status.is_running) == ("app-1", True)
    assert (second.uuid, second.status.state) == ("database-1", "unknown")


def test_projects_and_environments_are_listed(scripted, client):
    scripted.answers([{"id": 1, "uuid": "p", "name": "Bots", "description": None}])
    scripted.answers([{"id": 3, "name": "production"}])
    assert client.projects()[0].name == "Bots"
    assert client.environments("p")[0].name == "production"
    assert scripted.last.path == "/projects/p/environments"


def test_logs_are_text(scripted, client):
    scripted.answers({"logs": "joined\n"})
    assert client.logs("app-1", lines=5) == "joined\n"
    assert scripted.last.query == {"lines": "5"}


def test_an_application_that_is_not_running_has_no_logs(scripted, client):
    scripted.answers({"message": "Application is not running."}, status=400)
    with pytest.raises(NotRunning):
        client.logs("app-1")


# --- Writing --------------------------------------------------------------------------------


def create(client, **overrides):
    return client.create_application(
        **{
            "project_uuid": "p",
            "server_uuid": "s",
            "environment_name": "production",
            "image": Image("ghcr.io/team/bot", "v2"),
            "name": "pool-zoom-001",
            "description": "[IDLE] Available",
            **overrides,
        }
    )


def test_an_application_is_created_without_a_domain_and_not_started(scripted, client):
    scripted.answers({"uuid": "app-1", "domains": None}, status=201)
    assert create(client).uuid == "app-1"
    assert scripted.last.path == "/applications/dockerimage"
    assert scripted.last.body == {
        "project_uuid": "p",
        "server_uuid": "s",
        "environment_name": "production",
        "docker_registry_image_name": "ghcr.io/team/bot",
        "docker_registry_image_tag": "v2",
        "ports_exposes": "3000",
        "name": "pool-zoom-001",
        "description": "[IDLE] Available",
        "autogenerate_domain": False,
        "is_consistent_container_name_enabled": True,
        "docker_images_to_keep": 100,
        "max_restart_count": 0,
        "stop_grace_period": 30,
    }


def test_the_destination_is_sent_if_one_is_set(scripted, client):
    scripted.answers({"uuid": "app-1"}, status=201)
    create(client, destination_uuid="d")
    assert scripted.last.body["destination_uuid"] == "d"


def test_fields_that_an_early_version_does_not_know_are_left_out(scripted, client):
    refusal = {"autogenerate_domain": ["This field is not allowed."]}
    scripted.answers({"message": "Validation failed.", "errors": refusal}, status=422)
    scripted.answers({"uuid": "app-1"}, status=201)
    assert create(client).uuid == "app-1"
    assert "autogenerate_domain" not in scripted.last.body


def test_settings_that_an_early_version_does_not_know_are_left_out_of_a_change(scripted, client):
    refusal = {"docker_images_to_keep": ["This field is not allowed."]}
    scripted.answers({"message": "Validation failed.", "errors": refusal}, status=422)
    scripted.answers({"uuid": "app-1"})
    client.update_application("app-1", settings=True)
    assert scripted.last.body == {
        "is_consistent_container_name_enabled": True,
        "max_restart_count": 0,
        "stop_grace_period": 30,
    }


def test_the_copy_of_a_secret_for_previews_is_overwritten_after_it_was_made(scripted, client):
    scripted.answers([], status=201)
    client.set_envs("app-1", {"BOT_DATA": "c2VjcmV0"}, secret=["BOT_DATA"])
    sent = [(each["value"], each["is_preview"]) for each in scripted.last.body["data"]]
    assert sent == [("c2VjcmV0", False), ("-", True)]


def test_docker_is_asked_whether_a_container_runs(scripted, client):
    scripted.answers({"message": "Application is not running."}, status=400)
    scripted.answers({"logs": ""})
    assert client.container_runs("app-1") is False
    assert client.container_runs("app-1") is True
    assert scripted.last.path == "/applications/app-1/logs"


def test_a_field_that_cannot_be_left_out_is_an_error(scripted, client):
    refusal = {"project_uuid": ["This field is not allowed."]}
    scripted.answers({"message": "Validation failed.", "errors": refusal}, status=422)
    with pytest.raises(Refused):
        create(client)
    assert len(scripted.asked) == 1


def test_a_creation_without_a_uuid_may_have_happened(scripted, client):
    scripted.answers({"message": "ok"}, status=201)
    with pytest.raises(MalformedAnswer) as caught:
        create(client)
    assert caught.value.maybe_done


def test_a_description_is_updated_alone(scripted, client):
    scripted.answers({"uuid": "app-1"})
    client.update_application("app-1", description="[BUSY] Bot #1 - 2025-12-16T21:30:00Z")
    assert scripted.last.method == "PATCH"
    assert scripted.last.body == {"description": "[BUSY] Bot #1 - 2025-12-16T21:30:00Z"}


def test_an_image_is_updated_as_name_and_tag(scripted, client):
    scripted.answers({"uuid": "app-1"})
    client.update_application("app-1", image=Image("bot", "v3"))
    assert scripted.last.body == {
        "docker_registry_image_name": "bot",
        "docker_registry_image_tag": "v3",
    }


def test_an_update_of_nothing_is_refused(client):
    with pytest.raises(ValueError, match="nothing to update"):
        client.update_application("app-1")


def test_variables_are_sent_literally_with_every_field(scripted, client):
    scripted.answers([], status=201)
    client.set_envs("app-1", {"BOT_DATA": "eyJ9"})
    assert (scripted.last.method, scripted.last.path) == ("PATCH", "/applications/app-1/envs/bulk")
    assert scripted.last.body["data"] == [
        {
            "key": "BOT_DATA",
            "value": "eyJ9",
            "is_preview": False,
            "is_literal": True,
            "is_multiline": False,
            "is_shown_once": False,
            "is_runtime": True,
            "is_buildtime": False,
        }
    ]


def test_refused_variables_may_be_written_in_part(scripted, client):
    scripted.answers({"message": "Validation failed.", "errors": {"key": ["bad"]}}, status=422)
    with pytest.raises(Refused) as caught:
        client.set_envs("app-1", {"A": "1", "B": "2"})
    assert caught.value.maybe_done


@pytest.mark.parametrize("key", ["", "1A", "A B", "Ä", "A\n"])
def test_a_name_that_coolify_would_refuse_is_not_sent(scripted, client, key):
    with pytest.raises(ValueError, match="environment variable"):
        client.set_envs("app-1", {key: "x"})
    assert not scripted.asked


def test_a_value_that_would_become_null_is_not_sent(client):
    with pytest.raises(TypeError, match="BOT_DATA"):
        client.set_envs("app-1", {"BOT_DATA": None})


def test_a_stop_keeps_the_images(scripted, client):
    scripted.answers({"message": "Application stopping request queued."})
    client.stop("app-1")
    assert (scripted.last.method, scripted.last.path) == ("POST", "/applications/app-1/stop")
    assert scripted.last.query == {"docker_cleanup": "false"}


def test_a_deletion_keeps_the_images(scripted, client):
    scripted.answers({"message": "Application deletion request queued."})
    client.delete_application("app-1")
    assert scripted.last.method == "DELETE"
    assert scripted.last.query == {"docker_cleanup": "false"}
