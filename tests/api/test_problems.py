"""Every error under /api/ is problem+json, whichever layer raises it."""

import pytest
from django.db import OperationalError

from tests.api.conftest import Api


def assert_problem(answer, status):
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert set(problem) <= {"type", "title", "status", "detail", "errors"}
    return problem


@pytest.mark.parametrize(
    "path",
    ["/api/", "/api/v2/bots", "nothing", "bots/abc", "bots/-1", "bots/1/nothing", "bots/", "%00"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_path(client_api, method, path):
    assert_problem(client_api.call(method, path), 404)


@pytest.mark.parametrize("digits", [7, 19, 30, 5000])
def test_the_id_of_no_bot(client_api, digits):
    assert_problem(client_api.get(f"bots/{'9' * digits}"), 404)


def test_a_wrong_method_lists_the_allowed_ones(client_api):
    answer = client_api.call("DELETE", "bots")
    assert "GET, POST" in assert_problem(answer, 405)["detail"]
    assert answer["Allow"] == "GET, POST"


@pytest.mark.parametrize(
    "body",
    [
        "{",
        b"\xff\xfe",
        '{"meetingUrl": NaN}',
        '{"config": {"x": 1e999}}',
        '{"x": ' + "1" * 5000 + "}",
        "[" * 100_000,
    ],
    ids=range(6),
)
def test_a_body_that_is_not_json(client_api, body):
    assert_problem(client_api.post("bots", body), 400)


@pytest.mark.parametrize("body", ["", "[]", "null", "5", '"x"', "{}"])
def test_a_body_that_is_not_a_request(client_api, body):
    assert assert_problem(client_api.post("bots", body), 422)["errors"]


@pytest.mark.parametrize("body", ["[]", "null", "5", '"x"'])
@pytest.mark.parametrize("path", ["bots", "slots/pool-zoom-001/release"])
def test_a_body_that_is_not_an_object(operator_api, path, body):
    problem = assert_problem(operator_api.post(path, body), 422)
    assert problem["errors"] == {"body": ["The body must be a JSON object."]}


def test_a_field_that_is_not_an_object(client_api):
    answer = client_api.post("bots", {"meetingUrl": "https://zoom.us/j/1", "config": []})
    assert assert_problem(answer, 422)["errors"] == {"config": ["Must be a JSON object."]}


@pytest.mark.parametrize("path", ["bots", "bots/1/cancel", "nothing"])
def test_a_body_that_is_too_big(client_api, path):
    assert_problem(client_api.post(path, b"x" * 1_000_001), 413)


def test_an_unknown_host(db):
    answer = Api().client.get("/api/v1/bots", headers={"Host": "evil.example"})
    assert_problem(answer, 400)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=x",
        "status=nothing",
        "status=",
        "platform=webex",
        "cursor=x",
        "cursor=%00",
        "cursor=-1",
        "cursor=1111111111111111",
        "cursor=%D9%A1",
    ],
)
def test_an_invalid_query_names_the_parameter(client_api, query):
    problem = assert_problem(client_api.get(f"bots?{query}"), 422)
    assert set(problem["errors"]) == {query.split("=")[0]}


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("bots", "Allowed: cursor, limit, platform, status."),
        ("bots/1", "This call takes none."),
        ("bots/1/events", "Allowed: cursor, limit."),
        ("pool", "This call takes none."),
        ("slots", "Allowed: platform, status."),
        ("queue", "Allowed: limit, platform."),
    ],
)
def test_an_unknown_parameter_lists_the_allowed_ones(client_api, path, hint):
    problem = assert_problem(client_api.get(f"{path}?stauts=DONE"), 422)
    assert problem["errors"] == {"stauts": [f"Unknown parameter. {hint}"]}


def test_too_many_parameters(client_api):
    query = "&".join(f"p{number}=x" for number in range(1001))
    assert_problem(client_api.get(f"pool?{query}"), 400)


def test_an_unknown_field_is_refused_by_name(operator_api, assigned):
    path = f"slots/{assigned.slot.name}/release"
    answer = operator_api.post(path, {"reason": "It hangs", "bot_id": 5})
    assert set(assert_problem(answer, 422)["errors"]) == {"bot_id"}
    assert assigned.status() == "JOINING_CALL"


@pytest.mark.parametrize("body", ["", "null", '{"reason": "Not needed"}', "{"])
def test_cancelling_ignores_the_body(client_api, assigned, body):
    assert client_api.post(f"bots/{assigned.bot.pk}/cancel", body).status_code == 200
    assert assigned.status() == "CANCELLED"


def test_an_unavailable_database(client_api, monkeypatch):
    def lose_connection(*args, **kwargs):
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("api.clients.ask_for_bot", lose_connection)
    answer = client_api.post("bots", {"meetingUrl": "https://zoom.us/j/1"})
    assert_problem(answer, 503)
    assert answer["Retry-After"] == "2"


def test_each_response_has_a_correlation_id(client_api):
    assert client_api.get("nothing")["X-Correlation-Id"]
    answer = client_api.get("bots", **{"X-Correlation-Id": "mine"})
    assert answer["X-Correlation-Id"] == "mine"


def test_pages_outside_the_api_keep_their_own_errors(db):
    assert "json" not in Api().client.get("/nothing")["Content-Type"]
