"""The OpenAPI description and the interactive page."""

import re

import pytest

from tests.api.conftest import Api

CONTRACT = {
    ("post", "/api/v1/bots"),
    ("get", "/api/v1/bots"),
    ("get", "/api/v1/bots/{id}"),
    ("get", "/api/v1/bots/{id}/events"),
    ("get", "/api/v1/bots/{id}/logs"),
    ("post", "/api/v1/bots/{id}/cancel"),
    ("get", "/api/v1/pool"),
    ("get", "/api/v1/pool/pressure"),
    ("get", "/api/v1/slots"),
    ("get", "/api/v1/queue"),
    ("post", "/api/v1/slots/{slotName}/release"),
    ("get", "/api/v1/slots/{coolifyServiceUuid}/bot"),
    ("post", "/api/v1/bots/{id}/heartbeat"),
    ("post", "/api/v1/bots/{id}/status"),
    ("post", "/api/v1/coolify/webhook/{secret}"),
    ("get", "/api/v1/servers"),
    ("post", "/api/v1/servers/{serverName}/drain"),
    ("post", "/api/v1/servers/{serverName}/cordon"),
    ("post", "/api/v1/servers/{serverName}/maintenance"),
    ("post", "/api/v1/servers/{serverName}/return"),
    ("post", "/api/v1/servers/{serverName}/warm"),
}


@pytest.fixture
def document(db):
    return Api().get("openapi.json").json()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_it_describes_exactly_the_calls_of_the_contract(document):
    assert {(method, path) for method, path, _ in operations(document)} == CONTRACT


def test_every_error_is_described_as_a_problem(document):
    for _, _, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert set(response["content"]) == {"application/problem+json"}


def test_every_authenticated_call_describes_401(document):
    for _, _, operation in operations(document):
        if operation.get("security"):
            assert "401" in operation["responses"]


def test_it_names_the_server_and_what_webhooks_send(document, settings):
    assert [each["url"] for each in document["servers"]] == [settings.PUBLIC_URL, "/"]
    event = document["webhooks"]["bot.status"]["post"]["requestBody"]["content"]
    assert event["application/json"]["schema"]["$ref"].endswith("/BotStatusEvent")
    assert document["components"]["schemas"]["BotStatusEvent"]["examples"]


def test_calls_of_clients_come_first(document):
    assert [tag["name"] for tag in document["tags"]][:2] == ["Bots", "Pool"]
    first = next(operations(document))
    assert first[:2] in {("get", "/api/v1/bots"), ("post", "/api/v1/bots")}


def test_schemas_have_good_names_and_no_dangling_references(document):
    schemas = document["components"]["schemas"]
    assert {"Bot", "BotEvent", "Slot", "Queue", "Pool", "WaitingFor"} <= set(schemas)
    assert not [name for name in schemas if name.endswith("Out")]
    assert all(schema["title"] == name for name, schema in schemas.items())
    references = re.findall(r"#/components/schemas/(\w+)", repr(document))
    assert set(references) <= set(schemas)


def test_field_names_are_in_camel_case(document):
    for schema in document["components"]["schemas"].values():
        assert not [name for name in schema.get("properties", {}) if "_" in name]


def test_request_bodies_have_an_example(document):
    for _, path, operation in operations(document):
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]["schema"]
            name = body["$ref"].rpartition("/")[2]
            assert document["components"]["schemas"][name]["examples"], path


def test_only_bots_may_send_unknown_fields(document):
    schemas = document["components"]["schemas"]
    for name in ("NewBot", "Release"):
        assert schemas[name]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["StatusReport"]


def test_a_bots_reason_has_no_limit_and_says_where_it_is_cut(document):
    reason = document["components"]["schemas"]["StatusReport"]["properties"]["reason"]
    assert "maxLength" not in str(reason)
    assert "1000 characters" in reason["description"]


def test_calls_that_refuse_unknown_parameters_describe_422(document):
    assert "422" in document["paths"]["/api/v1/pool"]["get"]["responses"]


def test_the_interactive_page_needs_no_other_host_and_no_inline_script(db):
    page = Api().client.get("/api/v1/docs")
    assert page.status_code == 200
    html = page.content.decode()
    assert not re.search(r"https?://", html)
    # The only inline script is JSON data, which needs no permission from the policy.
    assert not re.findall(r"<script(?![^>]*(src=|application/json))", html)
    policy = page["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_everything_the_page_loads_is_served_from_this_host(db, settings):
    html = Api().client.get("/api/v1/docs").content.decode()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert len(loaded) >= 3
    for path in loaded:
        answer = Api().client.get(path)
        assert answer.status_code == 200, path
        answer.close()


@pytest.mark.parametrize("order", ["drain", "cordon", "maintenance", "warm", "return"])
def test_an_order_that_can_be_refused_says_so(document, order):
    described = document["paths"][f"/api/v1/servers/{{serverName}}/{order}"]["post"]
    assert ("409" in described["responses"]) == (order != "return")
