"""Tokens, abilities, the rate limit, and the errors that all calls share."""

import pytest
import requests

from coolify.simulator.settings import Token
from coolify.simulator.simulator import Simulator
from tests.simulated_coolify import PlainApi, new_application, simulated_coolify

READER = Token("2|reader", frozenset({"read"}))
TEAMLESS = Token("3|teamless", frozenset({"root"}), team=False)


@pytest.fixture
def simulator():
    with simulated_coolify(tokens=[Token(), READER, TEAMLESS]) as running:
        yield running


def with_token(
    simulator: Simulator, token: str | None, method: str, path: str
) -> requests.Response:
    headers = {"Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return requests.request(method, simulator.api_url + path, headers=headers, timeout=10)


def test_a_call_without_a_token_is_unauthenticated(simulator):
    response = with_token(simulator, None, "GET", "/applications")
    assert (response.status_code, response.json()) == (401, {"message": "Unauthenticated."})


def test_a_wrong_token_is_unauthenticated(simulator):
    assert with_token(simulator, "1|wrong", "GET", "/applications").status_code == 401


def test_a_token_without_a_team_is_invalid(simulator):
    response = with_token(simulator, TEAMLESS.plain, "GET", "/applications")
    assert (response.status_code, response.json()) == (401, {"message": "Invalid token."})


@pytest.mark.parametrize(
    ("method", "path", "ability"),
    [
        ("POST", "/applications/dockerimage", "write"),
        ("PATCH", "/applications/x", "write"),
        ("DELETE", "/applications/x", "write"),
        ("PATCH", "/applications/x/envs/bulk", "write"),
        ("POST", "/applications/x/start", "deploy"),
        ("POST", "/applications/x/stop", "deploy"),
        ("POST", "/deployments/x/cancel", "deploy"),
        ("POST", "/deploy", "deploy"),
    ],
)
def test_reading_is_not_enough_for(simulator, method, path, ability):
    response = with_token(simulator, READER.plain, method, path)
    assert response.status_code == 403
    assert response.json() == {"message": f"Missing required permissions: {ability}"}


def test_a_reader_may_read(simulator):
    assert with_token(simulator, READER.plain, "GET", "/applications").json() == []


def test_health_needs_no_token(simulator):
    for url in (f"{simulator.api_url}/health", f"{simulator.url}/api/health"):
        assert requests.get(url, timeout=10).text == "OK"


def test_version_is_text(api):
    response = api.get("/version")
    assert response.text == "4.3.11"
    assert response.headers["Content-Type"].startswith("text/html")


def test_a_disabled_api_says_so(api):
    api.control.add_fault("api_disabled")
    response = api.get("/applications")
    assert response.status_code == 403
    assert response.json() == {"success": True, "message": "API is disabled."}


def test_a_refused_address(api):
    api.control.add_fault("address_refused")
    response = api.get("/applications")
    assert response.status_code == 403
    assert response.json()["message"] == "You are not allowed to access the API."


def test_an_unknown_route_is_not_found(api):
    response = api.get("/nothing")
    assert response.status_code == 404
    assert response.json()["message"] == "Not found."
    assert "docs" in response.json()


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_a_get_that_changes_state_is_refused(api, verb):
    response = api.get(f"/applications/{api.create()}/{verb}")
    assert response.status_code == 405
    assert response.json() == {"message": "This endpoint has changed to a POST request."}


def test_old_versions_still_start_by_get():
    with simulated_coolify(version="4.1.9") as simulator:
        api = PlainApi(simulator)
        response = api.get(f"/applications/{api.create()}/start")
        api.close()
    assert response.json()["message"] == "Deployment request queued."


def test_an_unknown_query_parameter_is_refused(api):
    response = api.get("/applications", params={"page": 2})
    assert response.status_code == 422
    assert response.json()["errors"] == {"page": ["This field is not allowed."]}


@pytest.mark.parametrize(
    ("content_type", "body", "complaint"),
    [
        ("text/plain", "{}", "Content-Type must be application/json."),
        ("application/json", "{broken", "Invalid JSON."),
        ("application/json", "", "Invalid JSON."),
        ("application/json", "{}", "Empty JSON."),
    ],
)
def test_a_body_that_is_not_json_is_invalid(api, content_type, body, complaint):
    response = api.post(
        "/applications/dockerimage", data=body, headers={"Content-Type": content_type}
    )
    assert response.status_code == 400
    assert response.json() == {"message": "Invalid request.", "error": complaint}


def test_the_tokens_of_a_user_share_a_rate_limit():
    second = Token("9|second")
    with simulated_coolify(rate_limit=3, tokens=[Token(), second]) as simulator:
        answers = [
            with_token(simulator, token, "GET", "/version")
            for token in (Token().plain, second.plain, second.plain, Token().plain)
        ]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert [each.headers["X-RateLimit-Remaining"] for each in answers] == ["2", "1", "0", "0"]
    assert {each.headers["X-RateLimit-Limit"] for each in answers} == {"3"}
    assert answers[3].json() == {"message": "Too Many Attempts."}
    assert 0 < int(answers[3].headers["Retry-After"]) <= 60


def test_429_is_html_for_a_client_that_does_not_accept_json():
    with simulated_coolify(rate_limit=0) as simulator:
        response = requests.get(f"{simulator.api_url}/version", timeout=10)
    assert response.status_code == 429
    assert response.text.startswith("<!DOCTYPE html>")


def test_500_is_html_for_a_client_that_does_not_accept_json(api):
    body = new_application(description="x" * 256)
    response = api.post("/applications/dockerimage", json=body, headers={"Accept": "*/*"})
    assert response.status_code == 500
    assert "<html>" in response.text


def test_a_token_is_parsed_with_its_abilities():
    assert Token.parse("4|abc:read,read:sensitive").abilities == {"read", "read:sensitive"}


@pytest.mark.parametrize("text", ["no-id", "1|x:fly"])
def test_a_malformed_token_is_refused(text):
    with pytest.raises(ValueError, match="is not a token"):
        Token.parse(text)
