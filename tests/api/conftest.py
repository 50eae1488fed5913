import json

import pytest
from django.test import Client

from api.keys import create_api_key
from bots.moves import Outcome
from bots.status import BotStatus
from pool.assign import assign_bot_to_slot
from pool.lifecycle import mark_slot_running, release_bot_from_slot
from slots.models import Slot
from slots.tokens import make_bot_token
from tests.factories import BotFactory, SlotFactory

MEETING = "https://meet.google.com/abc-defg-hij"


class Api:
    """Calls the API with one key or token."""

    def __init__(self, token: str = "") -> None:
        self.client = Client(raise_request_exception=False)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method, path, body=None, **headers):
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        return self.client.generic(
            method,
            path if path.startswith("/") else f"/api/v1/{path}",
            data=b"" if body is None else data,
            content_type="application/json",
            headers={**self.headers, **headers},
        )

    def get(self, path, **headers):
        return self.call("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.call("POST", path, body, **headers)


class Assigned:
    """A bot in its slot, with its container's token."""

    def __init__(self, *, bot=None, runs=True):
        self.bot = bot or BotFactory()
        self.slot = assign_bot_to_slot(self.bot, reason="Bot requested", actor="test")
        self.token = make_bot_token(self.slot)
        self.api = Api(self.token)
        if runs:
            assert mark_slot_running(self.slot, reason="Container runs", actor="test")

    def release(self, status=BotStatus.DONE):
        self.slot.refresh_from_db()
        assert release_bot_from_slot(self.slot, Outcome(status, "Meeting over", "test"))

    def status(self):
        self.bot.refresh_from_db()
        return self.bot.status

    def heartbeat(self):
        return self.api.post(f"bots/{self.bot.pk}/heartbeat")

    def report(self, status, reason="…"):
        return self.api.post(f"bots/{self.bot.pk}/status", {"status": status, "reason": reason})


@pytest.fixture
def client_api(db):
    return Api(create_api_key(name="app"))


@pytest.fixture
def operator_api(db):
    return Api(create_api_key(name="ops", role="operator"))


@pytest.fixture
def full_pool(db, settings):
    """Google Meet has no slots and no room for one."""
    settings.MAX_POOL_SIZES = {**settings.MAX_POOL_SIZES, "google-meet": 0}


@pytest.fixture
def slot(db) -> Slot:
    return SlotFactory()


@pytest.fixture
def assigned(slot) -> Assigned:
    return Assigned()
