"""The API's description of itself, and the page to try it."""

import re

import pytest

from tests.api.conftest import Api

CONTRACT = {
    ("post", "/api/v1/bots"),
    ("get", "/api/v1/bots"),
    ("get", "/api/v1/bots/{id}"),
    ("get", "/api/v1/bots/{id}/events"),
    ("post", "/api/v1/bots/{id}/cancel"),
    ("get", "/api/v1/pool"),
    ("get", "/api/v1/slots"),
    ("get", "/api/v1/queue"),
    ("post", "/api/v1/slots/{slotName}/release"),
    ("get", "/api/v1/slots/{coolifyServiceUuid}/bot"),
    ("post", "/api/v1/bots/{id}/heartbeat"),
    ("post", "/api/v1/bots/{id}/status"),
    ("post", "/api/v1/coolify/webhook/{secret}"),
}


@pytest.fixture
def document(db):
    return Api().get("openapi.json").json()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_it_describes_the_calls_of_the_contract(document):
    assert {(method, path) for method, path, _ in operations(document)} == CONTRACT


def test_every_refusal_is_described_as_a_problem(document):
    for _, _, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert set(response["content"]) == {"application/problem+json"}


def test_every_call_with_a_key_says_that_it_may_be_refused(document):
    for _, _, operation in operations(document):
        if operation.get("security"):
            assert "401" in operation["responses"]


def test_names_are_in_camel_case(document):
    for schema in document["components"]["schemas"].values():
        assert not [name for name in schema.get("properties", {}) if "_" in name]


def test_bodies_come_with_an_example(document):
    for _, path, operation in operations(document):
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]["schema"]
            name = body["$ref"].rpartition("/")[2]
            assert document["components"]["schemas"][name]["examples"], path


def test_unknown_fields_are_for_bots_alone(document):
    schemas = document["components"]["schemas"]
    for name in ("NewBot", "Release"):
        assert schemas[name]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["StatusReport"]


def test_a_bots_reason_has_no_limit_but_says_where_it_is_cut(document):
    reason = document["components"]["schemas"]["StatusReport"]["properties"]["reason"]
    assert "maxLength" not in str(reason)
    assert "1000 characters" in reason["description"]


def test_calls_that_refuse_unknown_parameters_say_so(document):
    assert "422" in document["paths"]["/api/v1/pool"]["get"]["responses"]


def test_the_page_to_try_it_needs_no_other_host_and_no_script_of_its_own(db):
    page = Api().client.get("/api/v1/docs")
    assert page.status_code == 200
    html = page.content.decode()
    assert not re.search(r"https?://", html)
    # The one script with content is data, which no policy has to allow.
    assert not re.findall(r"<script(?![^>]*(src=|application/json))", html)
    policy = page["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_all_that_the_page_loads_is_served_by_us(db, settings):
    html = Api().client.get("/api/v1/docs").content.decode()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert len(loaded) >= 3
    for path in loaded:
        answer = Api().client.get(path)
        assert answer.status_code == 200, path
        answer.close()
