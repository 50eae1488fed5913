"""Whatever is refused under /api/ is refused as problem+json, by whomever."""

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
def test_a_number_no_bot_has(client_api, digits):
    assert_problem(client_api.get(f"bots/{'9' * digits}"), 404)


def test_a_wrong_method_with_the_right_ones(client_api):
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
def test_a_body_that_is_no_json(client_api, body):
    assert_problem(client_api.post("bots", body), 400)


@pytest.mark.parametrize("body", ["", "[]", "null", "5", '"x"', "{}"])
def test_a_body_that_is_no_request(client_api, body):
    assert assert_problem(client_api.post("bots", body), 422)["errors"]


@pytest.mark.parametrize("path", ["bots", "bots/1/cancel", "nothing"])
def test_a_body_that_is_too_big(client_api, path):
    assert_problem(client_api.post(path, b"x" * 1_000_001), 413)


def test_a_host_that_is_not_ours(db):
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
def test_a_query_that_is_not_valid_names_the_parameter(client_api, query):
    problem = assert_problem(client_api.get(f"bots?{query}"), 422)
    assert set(problem["errors"]) == {query.split("=")[0]}


def test_a_database_that_is_away(client_api, monkeypatch):
    def lose_connection(*args, **kwargs):
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("bots.api.clients.ask_for_bot", lose_connection)
    answer = client_api.post("bots", {"meetingUrl": "https://zoom.us/j/1"})
    assert_problem(answer, 503)
    assert answer["Retry-After"] == "2"


def test_each_answer_has_a_correlation_id(client_api):
    assert client_api.get("nothing")["X-Correlation-Id"]
    answer = client_api.get("bots", **{"X-Correlation-Id": "mine"})
    assert answer["X-Correlation-Id"] == "mine"


def test_pages_outside_of_the_api_keep_their_own_errors(db):
    assert "json" not in Api().client.get("/nothing")["Content-Type"]
