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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": "red"}, "Unknown field."),
        ({"meetingUrl": None}, "Must be a string."),
        ({"meetingUrl": ""}, "Must not be empty."),
        ({"priority": 1001}, "Must be at most 1000."),
        ({"priority": -1}, "Must be at least 0."),
        ({"priority": "5"}, "Must be a whole number."),
        ({"priority": 1.5}, "Must be a whole number."),
        ({"platform": "webex"}, "Must be one of: google-meet, teams, zoom."),
        ({"botDisplayName": "x" * 256}, "Must have at most 255 characters."),
    ],
    ids=str,
)
def test_errors_are_in_words_for_people(client_api, change, words):
    body = {"meetingUrl": "https://zoom.us/j/1", **change}
    errors = assert_problem(client_api.post("bots", body), 422)["errors"]
    assert errors == {next(iter(change)): [words]}


def test_no_error_shows_a_pattern(client_api):
    cursor = assert_problem(client_api.get("bots?cursor=x"), 422)["errors"]["cursor"]
    assert cursor == ["Must be the `nextCursor` of a previous page."]
    body = {"meetingUrl": "https://zoom.us/j/1"}
    answer = client_api.post("bots", body, **{"Idempotency-Key": "a b"})
    (words,) = assert_problem(answer, 422)["errors"]["Idempotency-Key"]
    assert words == "Must have printable ASCII characters only, without spaces."


def test_a_missing_field_is_named(client_api):
    errors = assert_problem(client_api.post("bots", {}), 422)["errors"]
    assert errors == {"meetingUrl": ["This is required."]}


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_a_body_without_a_json_type(client_api, kind):
    body = b'{"meetingUrl": "https://zoom.us/j/1"}'
    headers = {**client_api.headers, "Content-Type": kind}
    answer = client_api.client.generic(
        "POST", "/api/v1/bots", body, content_type=kind, headers=headers
    )
    assert "application/json" in assert_problem(answer, 415)["detail"]


def test_a_bot_may_leave_out_the_type(assigned):
    path = f"/api/v1/bots/{assigned.bot.pk}/status"
    answer = assigned.api.client.generic(
        "POST",
        path,
        b'{"status": "IN_CALL"}',
        content_type="text/plain",
        headers=assigned.api.headers,
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["bots/", "bots/7/", "pool/", "slots/pool-zoom-001/release/"])
def test_a_slash_too_much_gets_a_hint(client_api, path):
    detail = assert_problem(client_api.get(path), 404)["detail"]
    assert detail.endswith(f"Leave out the slash at the end: /api/v1/{path.rstrip('/')}")
    assert "slash" not in assert_problem(client_api.get("nothing/"), 404)["detail"]


def test_every_answer_to_a_key_says_what_is_left_of_its_rate(client_api, settings):
    settings.API_RATE_LIMIT = 600
    for answer in (client_api.get("bots"), client_api.get("bots/999"), client_api.post("bots", {})):
        assert answer["RateLimit-Policy"] == '"key";q=600;w=60'
        assert 590 < int(answer["RateLimit-Remaining"]) < 600
        assert f"r={answer['RateLimit-Remaining']};" in answer["RateLimit"]


def test_a_refused_call_has_nothing_left(client_api, settings):
    settings.API_RATE_LIMIT = 1
    client_api.get("pool")
    answer = client_api.get("pool")
    assert_problem(answer, 429)
    assert answer["RateLimit-Remaining"] == "0"


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


def test_many_unknown_fields_cost_little_and_answer_shortly(client_api):
    """Each of them in the answer would make it longer than the request."""
    body = {f"field {number}": 1 for number in range(50_000)}
    answer = client_api.post("bots", body)
    assert assert_problem(answer, 422)["errors"] == {
        "body": ["Has 50000 fields; at most 100 are allowed."]
    }


def test_a_long_list_of_errors_is_cut(client_api):
    answer = client_api.post("bots", {f"{number} " + "x" * 5_000: 1 for number in range(90)})
    problem = assert_problem(answer, 422)
    assert len(problem["errors"]) == 20
    assert len(answer.content) < 20_000


@pytest.mark.parametrize("path", ["bots", "bots/999", "nothing", "openapi.json", "pool"])
def test_no_answer_is_kept_in_a_cache(client_api, path):
    assert client_api.get(path)["Cache-Control"] == "no-store"
    assert client_api.post("bots", b"x" * 1_000_001)["Cache-Control"] == "no-store"


def test_the_interactive_page_does_not_store_the_key(client_api):
    assert '"persistAuthorization": true' not in client_api.get("docs").text
