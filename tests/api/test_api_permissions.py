"""Which role may make which call: every call, every role."""

import pytest
from django.utils import timezone

from api.application import api
from api.keys import create_api_key, revoke_api_key
from bots.models import ApiKey, Bot
from pool.assign import assign_bot_to_slot
from servers.models import Server
from slots.deployment import Watch
from slots.tokens import make_bot_token
from tests.api.conftest import MEETING, Api
from tests.factories import BotFactory, SlotFactory

BODIES = {
    "createBot": {"meetingUrl": MEETING},
    "reportStatus": {"status": "IN_CALL"},
    "releaseSlot": {"reason": "Stuck"},
    "drainServer": {"reason": "Update"},
    "cordonServer": {"reason": "Update"},
    "returnServer": {"reason": "Update"},
    "warmImage": {"reason": "Release", "image": "registry.example/bot:1.4"},
    "planMaintenance": {
        "reason": "Update",
        "begins": "2040-01-01T10:00:00Z",
        "ends": "2040-01-01T11:00:00Z",
    },
}
CLIENT, OPERATOR, BOT, PUBLIC = {"client", "operator"}, {"operator"}, {"bot"}, {"public"}
ALLOWED = {
    "createBot": CLIENT,
    "listBots": CLIENT,
    "getBot": CLIENT,
    "listBotEvents": CLIENT,
    "listBotLogs": CLIENT,
    "cancelBot": CLIENT,
    "getPool": CLIENT,
    "getPressure": CLIENT,
    "listSlots": CLIENT,
    "listQueue": CLIENT,
    "releaseSlot": OPERATOR,
    "listServers": OPERATOR,
    "drainServer": OPERATOR,
    "cordonServer": OPERATOR,
    "planMaintenance": OPERATOR,
    "returnServer": OPERATOR,
    "warmImage": OPERATOR,
    "getBotOfContainer": BOT,
    "recordHeartbeat": BOT,
    "reportStatus": BOT,
    "receiveCoolifyWebhook": PUBLIC,
}
ROLES = ["anonymous", "client", "operator", "bot", "revoked"]


def calls():
    for path, operations in api.get_openapi_schema()["paths"].items():
        for method, operation in operations.items():
            yield operation["operationId"], method.upper(), path


CALLS = {name: (method, path) for name, method, path in calls()}


def test_every_call_is_in_the_table():
    assert set(CALLS) == set(ALLOWED)


def token_of(role, *, slot):
    if role == "bot":
        return make_bot_token(slot)
    if role in ("client", "operator"):
        return create_api_key(name=role, role=role, client="app")
    key = create_api_key(name="revoked", role="operator")
    revoke_api_key(ApiKey.objects.get(name="revoked"))
    return key if role == "revoked" else ""


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("call", [name for name in CALLS if ALLOWED[name] != PUBLIC])
def test_a_call_is_open_only_to_its_roles(db, settings, call, role):
    settings.COOLIFY_SERVER_UUIDS = ["server-1", "server-2"]
    for uuid in settings.COOLIFY_SERVER_UUIDS:
        Server.objects.create(uuid=uuid, name=uuid, read_at=timezone.now())
    SlotFactory(coolify_uuid="app-1")
    slot = assign_bot_to_slot(BotFactory(), reason="Bot requested", actor="test")
    method, path = CALLS[call]
    path = path.format(
        id=slot.assigned_bot_id,
        slotName=slot.name,
        coolifyServiceUuid="app-1",
        serverName="server-1",
    )
    answer = Api(token_of(role, slot=slot)).call(method, path, BODIES.get(call))
    if role in ALLOWED[call]:
        assert answer.status_code in (200, 201)
    else:
        wrong_role = role == "client" and ALLOWED[call] == OPERATOR
        assert answer.status_code == (403 if wrong_role else 401)
        assert answer["Content-Type"] == "application/problem+json"
        assert Bot.objects.get().status == "DEPLOYING"


def test_a_call_without_a_key_is_told_how_to_authenticate(db):
    assert Api().get("bots")["WWW-Authenticate"] == "Bearer"


def test_a_key_over_its_rate_is_told_when_to_try_again(settings, client_api):
    settings.API_RATE_LIMIT = 1
    client_api.get("bots")
    answer = client_api.get("bots")
    assert answer.status_code == 429
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert answer["Content-Type"] == "application/problem+json"


@pytest.fixture
def recent_observation(db):
    Watch.objects.update_or_create(pk=True, defaults={"looked_at": timezone.now()})


def test_a_notification_without_the_secret_does_nothing(recent_observation, settings):
    secret = settings.COOLIFY_WEBHOOK_SECRET
    for wrong in (secret[:-1], f"{secret}x", "ü"):
        assert Api().post(f"coolify/webhook/{wrong}").status_code == 404
    assert Watch.objects.get().wanted_at is None
