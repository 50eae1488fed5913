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


def test_a_token_of_another_team_sees_none_of_ours(api):
    uuid = api.create()
    api.control.add_fault("wrong_team")
    lists = ("applications", "deployments", "projects", "servers")
    assert [api.get(f"/{each}").json() for each in lists] == [[]] * 4
    answers = [
        api.get(f"/applications/{uuid}"),
        api.post(f"/applications/{uuid}/start"),
        api.get("/deployments/any"),
        api.get("/projects/simulated-project/environments"),
        api.post("/applications/dockerimage", json={}),
    ]
    assert [(each.status_code, each.json()["message"]) for each in answers] == [
        (404, "Application not found."),
        (404, "Application not found."),
        (404, "Deployment not found."),
        (404, "Project not found."),
        (404, "Project not found."),
    ]
    assert api.get("/version").text == "4.3.11"
    api.control.clear_faults()
    assert api.get(f"/applications/{uuid}").status_code == 200


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
        token = {"Authorization": f"Bearer {Token().plain}"}
        response = requests.get(f"{simulator.api_url}/version", headers=token, timeout=10)
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


# Who is counted, and who is refused


def statuses(simulator, tokens, path="/version"):
    return [with_token(simulator, token, "GET", path).status_code for token in tokens]


def test_a_wrong_token_does_not_count_against_the_rate_limit():
    with simulated_coolify(rate_limit=1) as simulator:
        wrong = statuses(simulator, ["1|wrong"] * 3)
        right = statuses(simulator, [Token().plain] * 2)
    assert (wrong, right) == ([401] * 3, [200, 429])


def test_the_first_user_shares_its_rate_limit_with_health():
    """Coolify counts by address where the id of the user is 0."""
    first, other = Token(user="0"), Token("7|other", user="7")
    with simulated_coolify(rate_limit=1, tokens=[first, other]) as simulator:
        assert requests.get(f"{simulator.api_url}/health", timeout=10).status_code == 200
        assert statuses(simulator, [first.plain, other.plain]) == [429, 200]


MEMBER = Token("5|member", frozenset({"read", "deploy"}), role="member")
MEMBER_WHO_READS = Token("6|reads", frozenset({"read"}), role="member")


@pytest.mark.parametrize(("version", "status"), [("4.3.11", 403), ("4.1.9", 200)])
def test_a_member_needs_the_role_of_an_admin_for_more_than_reading(version, status):
    tokens = [MEMBER, MEMBER_WHO_READS]
    with simulated_coolify(tokens=tokens, version=version) as simulator:
        response = with_token(simulator, MEMBER.plain, "GET", "/version")
        assert statuses(simulator, [MEMBER_WHO_READS.plain]) == [200]
    assert response.status_code == status
    assert status == 200 or response.json() == {"message": "Missing required team role."}


def test_a_user_may_be_demoted_while_the_simulator_runs(api):
    api.control.add_fault("member_role")
    assert api.get("/version").status_code == 403


def test_a_token_is_refused_after_too_many_refusals():
    with simulated_coolify(refusals_allowed=30, tokens=[Token(), READER]) as simulator:
        codes = [
            with_token(simulator, READER.plain, "POST", "/deploy").status_code for _ in range(32)
        ]
        assert codes == [403] * 30 + [429] * 2
        assert statuses(simulator, [READER.plain, Token().plain]) == [429, 200]


def test_refusals_are_not_limited_before_that_version(simulator):
    codes = {with_token(simulator, "1|wrong", "GET", "/version").status_code for _ in range(32)}
    assert codes == {401}


# Parts of Coolify that are down


@pytest.mark.parametrize(("fault", "health"), [("redis_down", 500), ("database_down", 200)])
def test_health_does_not_notice_every_outage(api, fault, health):
    api.control.add_fault(fault)
    assert api.get("/applications").status_code == 500
    assert api.get("/health").status_code == health


def test_each_call_may_take_its_time():
    with simulated_coolify(shortest_call=0.2, longest_call=0.3) as simulator:
        answer = with_token(simulator, Token().plain, "GET", "/version")
    assert answer.elapsed.total_seconds() >= 0.2


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_an_unknown_query_parameter_of_an_action_is_ignored(api, verb):
    response = api.post(f"/applications/{api.create()}/{verb}", params={"surprise": 1})
    assert response.status_code == 200


def test_a_change_refuses_unknown_query_parameters(api):
    path = f"/applications/{api.create()}"
    response = api.patch(path, json={"description": "x"}, params={"surprise": 1})
    assert response.status_code == 422
