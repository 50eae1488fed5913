"""The page and the control path ask for no token, so foreign web pages must not reach them."""

import json
import socket
from urllib.parse import urlsplit

import pytest
import requests

from coolify.simulator.settings import DEFAULT_TOKEN


def call(api, method, path, body=None, **headers):
    url = f"{api.simulator.url}{path}"
    data = body if isinstance(body, bytes | None) else json.dumps(body)
    return requests.request(method, url, data=data, headers=headers, timeout=10)


# --- Who may call -------------------------------------------------------------------------------

STATE, HEAL = "/_simulator/state", "/_simulator/actions/heal"


@pytest.mark.parametrize("path", [STATE, "/", "/project/x"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8780", "127.0.0.1.evil.example"])
def test_a_host_that_anybody_can_own_is_refused(api, path, host):
    answer = call(api, "GET", path, Host=host)
    assert answer.status_code == 421
    assert f"--allowed-host {host.partition(':')[0]}" in answer.json()["message"]


@pytest.mark.parametrize("simulator", [{"allowed_hosts": ["Coolify.example"]}], indirect=True)
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8780", "10.0.0.7", "[::1]:8780", "LOCALHOST:1", "coolify", "coolify_1:8780",
        "coolify.example:80",
    ],
)  # fmt: skip
def test_addresses_names_of_containers_and_named_hosts_are_accepted(api, host):
    assert call(api, "GET", STATE, Host=host).status_code == 200


def test_a_client_without_a_host_is_no_browser(api):
    address = urlsplit(api.simulator.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as client:
        client.sendall(b"GET /_simulator/state HTTP/1.0\r\n\r\n")
        assert client.recv(20).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["]
)
def test_the_form_of_a_foreign_page_is_refused(api, origin):
    api.control.add_fault("pull_fails")
    answer = call(api, "POST", HEAL, Origin=origin)
    assert answer.status_code == 403
    assert "another site" in answer.json()["message"]
    assert api.control.faults()


def test_the_form_of_its_own_page_is_accepted(api):
    assert call(api, "POST", HEAL, Origin=api.simulator.url).status_code == 200


def test_the_api_answers_under_any_name_as_coolify_does(api):
    token = f"Bearer {DEFAULT_TOKEN}"
    headers = {"Host": "evil.example", "Origin": "http://other.example", "Authorization": token}
    assert call(api, "GET", "/api/v1/version", **headers).status_code == 200


# --- What they may say --------------------------------------------------------------------------

FAULTS, SETTINGS, ACTIONS = "/_simulator/faults", "/_simulator/settings", "/_simulator/actions"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("longest_call", "x"),
        ("longest_call", True),
        ("longest_call", -1),
        ("longest_call", float("nan")),
        ("longest_call", float("inf")),
        ("longest_call", None),
        ("rate_limit", 1.5),
        ("version", "x"),
        ("version", 4),
        ("webhook_enabled", 1),
        ("webhook_events", "deployment_failed"),
        ("webhook_events", [1]),
        ("webhook_url", 7),
    ],
)
def test_a_setting_of_another_type_is_refused(api, name, value):
    answer = call(api, "PATCH", SETTINGS, {"agent_seconds": 7, name: value})
    assert answer.status_code == 400
    assert name in answer.json()["message"]
    assert api.get("/version").status_code == 200
    assert api.simulator.settings.agent_seconds == 60  # none of them is changed


@pytest.mark.parametrize(
    "changes",
    [
        {"longest_call": 0, "rate_limit": None, "version": "v4.2.0-beta.1", "webhook_url": None},
        {"deployments_as_object": True, "webhook_events": []},
    ],
)
def test_settings_of_the_right_types_are_changed(api, changes):
    api.control.change(**changes)
    assert {name: getattr(api.simulator.settings, name) for name in changes} == changes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", "x"),
        ("seconds", 1e300),
        ("probability", "NaN"),
        ("probability", float("nan")),
        ("times", "2"),
        ("status", 99_999),
        ("status", 100),
        ("method", 1),
        ("keep", -1),
        ("path", "("),
        ("path", "(" * 10_000),
        ("path", 1),
    ],
)
def test_a_fault_with_a_wrong_value_is_refused(api, name, value):
    answer = call(api, "POST", FAULTS, {"kind": "latency", name: value})
    assert answer.status_code == 400
    assert name in answer.json()["message"]
    assert api.control.faults() == []


@pytest.mark.parametrize("path", [FAULTS, f"{ACTIONS}/heal", f"{ACTIONS}/server"])
@pytest.mark.parametrize("body", [b"[1]", b"7", b"null", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(api, path, body):
    answer = call(api, "POST", path, body)
    assert answer.status_code == 400
    assert answer.json()["message"] == "The body must be a JSON object."


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("server", {"concurrent_builds": "x"}),
        ("server", {"destinations": "one"}),
        ("server", {"docker_cleanup": [1]}),
        ("restart-coolify", {"outage_seconds": "NaN"}),
        ("add-server", {"server": 7}),
        ("warm-image", {"image": None}),
        ("set-status", {"application": ["x"], "status": "x"}),
    ],
)
def test_an_action_with_a_wrong_value_is_refused(api, action, body):
    before = api.control.state()["servers"]
    assert call(api, "POST", f"{ACTIONS}/{action}", body).status_code == 400
    assert api.control.state()["servers"] == before


def test_a_status_is_text(api):
    uuid = api.create()
    body = {"application": uuid, "status": 7}
    assert call(api, "POST", f"{ACTIONS}/set-status", body).status_code == 400
