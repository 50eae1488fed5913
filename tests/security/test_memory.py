"""Refused requests leave nothing behind in memory, however many there are."""

import gc
import json
import logging
import sys
from collections.abc import Iterator

import pytest
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.test import RequestFactory
from ninja.testing import TestClient
from pydantic import BaseModel, field_validator

from api.access import ClientKey
from api.application import BotpoolApi
from bots.models import ApiKey

TIMES = 2_000
MEETING = "https://meet.google.com/abc-defg-hij"
REFUSED = {
    "too much configuration": {"meetingUrl": MEETING, "config": {"x": "y" * 70_000}},
    "private webhook": {"meetingUrl": MEETING, "webhookUrl": "http://127.0.0.1/"},
    "webhook that is no address": {"meetingUrl": MEETING, "webhookUrl": "nowhere"},
    "unknown meeting": {"meetingUrl": "https://example.com/"},
    "unknown field": {"meetingUrl": MEETING, "color": "red"},
    "wrong types": {"meetingUrl": 5, "priority": "high", "config": []},
    "no field": {},
    "too deep": {"meetingUrl": MEETING, "config": [[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]},
    "not JSON": "{",
    "no object": "[]",
}


@pytest.fixture(autouse=True)
def _no_log_and_no_queries(monkeypatch) -> Iterator[None]:
    """pytest would keep each log line, and a query for each request would take long."""
    key = ApiKey(name="client", role="client")
    monkeypatch.setattr(ClientKey, "authenticate", lambda *arguments: key)
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def handler() -> BaseHandler:
    """Not the test client, which keeps something of each request itself."""
    made = BaseHandler()
    made.load_middleware()
    return made


def new_request(body: object) -> HttpRequest:
    data = body if isinstance(body, str) else json.dumps(body)
    headers = {"Authorization": "Bearer x"}
    return RequestFactory().post(
        "/api/v1/bots", data, content_type="application/json", headers=headers
    )


def blocks_kept(refuse, *, times: int) -> int:
    """Counts every object, also those that the garbage collector cannot reach."""
    for _ in range(50):  # fills the caches
        assert refuse() in (400, 422)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(times):
        refuse()
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_a_refused_request_is_forgotten(handler, body):
    def refuse() -> int:
        return handler.get_response(new_request(body)).status_code

    assert blocks_kept(refuse, times=TIMES) < TIMES


class Body(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _none_is_good(cls, number: int) -> int:
        raise ValueError("No.")


def test_a_validator_that_raises_value_error_keeps_nothing_either():
    """Its traceback reaches every frame of the request."""
    api = BotpoolApi(urls_namespace="memory")

    @api.post("/")
    def view(request: HttpRequest, body: Body) -> None: ...

    client = TestClient(api)

    def refuse() -> int:
        return client.post("/", json={"number": 1}).status_code

    assert blocks_kept(refuse, times=200) < 200
