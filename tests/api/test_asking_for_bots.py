import base64
import json
import os
import subprocess
import sys
import tracemalloc

import pytest

from bots.models import Bot, BotEvent
from bots.status import BotStatus
from pool.controller.start import container_environment
from queues.models import QueueEntry
from tests.api.conftest import MEETING
from tests.factories import SlotFactory

FIELDS = {
    "id",
    "correlationId",
    "status",
    "platform",
    "meetingUrl",
    "botDisplayName",
    "priority",
    "slotName",
    "coolifyServiceUuid",
    "failureReason",
    "failureCode",
    "createdAt",
    "queuedAt",
    "startedAt",
    "lastHeartbeatAt",
    "endedAt",
    "waitingFor",
}


def ask(api, body=None, **headers):
    return api.post("bots", {"meetingUrl": MEETING, **(body or {})}, **headers)


def test_it_places_the_bot_on_an_idle_slot(client_api, slot):
    answer = ask(client_api)
    assert answer.status_code == 201
    bot = answer.json()["bot"]
    assert set(bot) == FIELDS
    assert (bot["status"], bot["slotName"]) == ("DEPLOYING", slot.name)
    assert bot["coolifyServiceUuid"] == slot.coolify_uuid
    assert set(answer.json()) == {"bot"}
    assert answer["Location"] == f"/api/v1/bots/{bot['id']}"


def test_it_queues_the_bot_if_the_pool_is_full(client_api, full_pool):
    ask(client_api)
    answer = ask(client_api)
    assert answer.status_code == 201
    assert answer.json()["bot"]["status"] == "QUEUED"
    assert answer.json()["queuePosition"] == 2
    assert "estimatedWaitMs" in answer.json()


def test_it_stores_every_field(client_api):
    body = {
        "botDisplayName": "Protokoll Ü",
        "priority": 7,
        "queueTimeoutMs": 1234,
        "config": {"language": "de", "deep": [{"x": None}]},
    }
    answer = ask(client_api, body, **{"X-Correlation-Id": "order-4711"})
    bot = Bot.objects.get(pk=answer.json()["bot"]["id"])
    assert (bot.display_name, bot.priority, bot.config) == ("Protokoll Ü", 7, body["config"])
    assert bot.queue_timeout.total_seconds() == 1.234
    assert bot.correlation_id == "order-4711"


def test_omitted_fields_have_their_defaults(client_api):
    ask(client_api)
    bot = Bot.objects.get()
    assert (bot.priority, bot.queue_timeout.total_seconds(), bot.config) == (100, 300, {})


def test_null_means_omitted_for_fields_without_a_default(client_api):
    body = {"platform": None, "queueTimeoutMs": None, "dedupeKey": None, "webhookUrl": None}
    assert ask(client_api, body).status_code == 201


def test_the_history_names_the_api_key(client_api):
    ask(client_api)
    assert set(BotEvent.objects.values_list("actor", flat=True)) == {"key:app"}


def test_a_second_bot_for_the_same_meeting_is_allowed(client_api):
    assert ask(client_api).json()["bot"]["id"] != ask(client_api).json()["bot"]["id"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("meetingUrl", 5),
        ("meetingUrl", ""),
        ("meetingUrl", "https://example.com/meeting"),
        ("meetingUrl", "https://meet.google.com/" + "a" * 2000),
        ("meetingUrl", "https://meet.google.com/abc-defg-hij?x=\u202egpj"),
        ("botDisplayName", ""),
        ("botDisplayName", "   "),
        ("botDisplayName", "\u200b\u3164\t"),
        ("botDisplayName", "\ufff9"),
        ("botDisplayName", "\U000e0041\U000e0100"),
        ("botDisplayName", "\U0001d173\U0001bca0\U00016fe4"),
        ("botDisplayName", "x" * 256),
        ("botDisplayName", "a\u0007"),
        ("botDisplayName", "a\r\nb"),
        ("botDisplayName", "a\n"),
        ("botDisplayName", "a\u2028b"),
        ("botDisplayName", "a\u202eb"),
        ("botDisplayName", "\u2066a\u2069"),
        ("platform", "webex"),
        ("platform", "zoom"),
        ("priority", -1),
        ("priority", 1001),
        ("priority", "5"),
        ("priority", True),
        ("priority", 1.5),
        ("priority", 10**400),
        ("queueTimeoutMs", 0),
        ("queueTimeoutMs", 600_001),
        ("config", []),
        ("config", {"x": "y" * 65_536}),
        ("config", {"x": [1e300] * 218}),
        ("config", {"x": "a\x00b"}),
        ("config", {"a\x00b": 1}),
        ("config", {"x": "\ud800"}),
        ("dedupeKey", ""),
        ("dedupeKey", "x" * 256),
        ("webhookUrl", "javascript:alert(1)"),
        ("surprise", 1),
    ],
)
def test_an_invalid_field_is_refused_by_name(client_api, field, value):
    if field == "meetingUrl":
        answer = client_api.post("bots", {"meetingUrl": value})
    else:
        answer = ask(client_api, {field: value})
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    named = {"meetingUrl" if value == "zoom" else field}
    assert set(answer.json()["errors"]) == named
    assert not Bot.objects.exists()


@pytest.mark.parametrize(
    "name",
    [
        "Notes 😀",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "\u200fדנה\u200e (2)",
        "\U0001f469\u200d\U0001f4bb",
        "❤\ufe0f",
        "سكرتير",
        "می\u200cخواهم",
        "רשם",
        "Ame\u0301lie",
        "会議ボット",
        "O'Hara <b>",
    ],
)
def test_ordinary_names_are_allowed(client_api, name):
    assert ask(client_api, {"botDisplayName": name}).status_code == 201
    assert Bot.objects.get().display_name == name


LARGEST_STRING = 131_072  # bytes: Linux's limit for one argument or variable


@pytest.mark.parametrize("letter", ["y", "я", "😀", '"', "\x01"])
def test_the_largest_accepted_bot_fits_into_an_environment_variable(client_api, slot, letter):
    meeting = MEETING + "?" + '"' * (2000 - len(MEETING) - 1)
    room = 65_536 - len(json.dumps({"x": ""}))
    letters = room // (len(json.dumps(letter, ensure_ascii=False).encode()) - 2)
    body = {
        "meetingUrl": meeting,
        "botDisplayName": "😀" * 255,
        "config": {"x": letter * letters},
    }
    assert ask(client_api, body, **{"X-Correlation-Id": "c" * 64}).status_code == 201
    slot.refresh_from_db()
    variables = container_environment(slot, Bot.objects.get())
    assert len(f"BOT_DATA={variables['BOT_DATA']}") < LARGEST_STRING
    # Coolify writes them to a file with a shell command, as base64 in one argument.
    file = "\n".join(f"{name}='{value}'" for name, value in variables.items())
    assert len(base64.b64encode(file.encode())) < LARGEST_STRING - 3_000


def test_large_numbers_in_the_config_are_kept(client_api):
    ask(client_api, {"config": {"x": 1e300, "y": 1.5, "z": 2.0}})
    config = Bot.objects.get().config
    assert json.dumps(config) == json.dumps({"x": 10**300, "y": 1.5, "z": 2.0})


def test_numbers_that_would_fill_the_memory_are_refused_before_they_are_written_out(client_api):
    """Five bytes become 309 digits: a body of 1 MB would take 50 MB and seconds."""
    numbers = ",".join(["1e308"] * 160_000)
    body = f'{{"meetingUrl": "{MEETING}", "config": {{"x": [{numbers}]}}}}'
    tracemalloc.start()
    answer = client_api.post("bots", body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 422
    assert "65536 digits" in answer.json()["errors"]["body"][0]
    assert peak < 20 * len(body)


def nested(levels):
    value = {}
    for _ in range(levels - 1):
        value = {"x": value}
    return value


def test_a_config_may_have_twenty_levels(client_api):
    assert ask(client_api, {"config": nested(20)}).status_code == 201


def test_a_config_may_not_have_twenty_one_levels(client_api):
    answer = ask(client_api, {"config": nested(21)})
    assert "nested" in answer.json()["errors"]["config"][0]


def test_refusing_an_unknown_address_lists_the_known_forms(client_api):
    answer = client_api.post("bots", {"meetingUrl": "https://example.com/x"})
    (reason,) = answer.json()["errors"]["meetingUrl"]
    assert "meet.google.com" in reason and "teams.microsoft.com" in reason and "zoom.us" in reason


# In its own process: the schema is built once, from the settings at start.
SHOW_QUEUE_TIMEOUT = """
import django
django.setup()
import json
from api.schemas.bots import NewBot
NewBot.model_validate({"meetingUrl": "https://zoom.us/j/1", "queueTimeoutMs": 1_200_000})
print(json.dumps(NewBot.model_json_schema()["properties"]["queueTimeoutMs"]))
"""


def test_the_longest_queue_timeout_comes_from_the_settings():
    keep = {name: os.environ[name] for name in ("PATH", "BOTPOOL_DATA_DIR")}
    own = {"MAX_QUEUE_TIMEOUT": "1200000", "DEFAULT_QUEUE_TIMEOUT": "700000"}
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_QUEUE_TIMEOUT],
        env={**keep, **own, "DJANGO_SETTINGS_MODULE": "botpool.settings"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    described = json.loads(shown)
    assert described["anyOf"][0]["maximum"] == 1_200_000
    assert "700000 if omitted" in described["description"]


# --- The same request again -------------------------------------------------------------------


def again(api, body=None, key="order-1"):
    return ask(api, body, **{"Idempotency-Key": key})


def test_the_same_idempotency_key_gives_the_same_bot(client_api):
    first, second = again(client_api), again(client_api)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert Bot.objects.count() == 1
    assert "Idempotency-Replayed" not in first.headers
    assert second["Idempotency-Replayed"] == "true"


def test_a_replay_has_the_status_of_the_first_answer(client_api):
    body = {"dedupeKey": "standup"}
    assert again(client_api, body, key="a").status_code == 201
    for replayed in (None, "true"):
        found = again(client_api, body, key="b")
        assert (found.status_code, found.headers.get("Idempotency-Replayed")) == (200, replayed)
    assert again(client_api, body, key="a").status_code == 201


def test_field_order_and_white_space_do_not_make_a_different_request(client_api):
    key = {"Idempotency-Key": "order-1"}
    first = client_api.post("bots", f'{{"meetingUrl":"{MEETING}","priority":5}}', **key)
    second = client_api.post("bots", f'{{ "priority": 5, "meetingUrl": "{MEETING}" }}', **key)
    assert first.json()["bot"]["id"] == second.json()["bot"]["id"]


def test_the_same_idempotency_key_with_a_different_body_is_refused(client_api):
    again(client_api)
    answer = again(client_api, {"priority": 1})
    assert answer.status_code == 409
    assert answer["Content-Type"] == "application/problem+json"
    assert Bot.objects.count() == 1


def test_an_idempotency_key_belongs_to_one_api_key(client_api, operator_api):
    assert again(client_api).json()["bot"]["id"] != again(operator_api).json()["bot"]["id"]


def test_a_refused_request_does_not_use_up_its_idempotency_key(client_api):
    assert again(client_api, {"priority": -1}).status_code == 422
    assert again(client_api).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ü"])
def test_an_invalid_idempotency_key_is_refused(client_api, key):
    assert again(client_api, key=key).status_code == 422


def test_an_idempotency_key_returns_its_bot_after_the_bot_has_ended(client_api):
    bot_id = again(client_api).json()["bot"]["id"]
    client_api.post(f"bots/{bot_id}/cancel")
    answer = again(client_api)
    assert answer.status_code == 201
    assert (answer.json()["bot"]["id"], answer.json()["bot"]["status"]) == (bot_id, "CANCELLED")


def test_the_same_dedupe_key_returns_the_live_bot(client_api):
    first = ask(client_api, {"dedupeKey": "standup"})
    second = ask(client_api, {"dedupeKey": "standup", "priority": 1})
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["bot"]["id"] == second.json()["bot"]["id"]


def test_a_dedupe_key_gives_a_new_bot_once_the_old_one_has_ended(client_api):
    first = ask(client_api, {"dedupeKey": "standup"}).json()["bot"]["id"]
    client_api.post(f"bots/{first}/cancel")
    second = ask(client_api, {"dedupeKey": "standup"}).json()["bot"]["id"]
    third = ask(client_api, {"dedupeKey": "standup"}).json()["bot"]["id"]
    assert first != second == third


def test_a_dedupe_key_belongs_to_one_api_key(client_api, operator_api):
    body = {"dedupeKey": "standup"}
    assert ask(client_api, body).json()["bot"]["id"] != ask(operator_api, body).json()["bot"]["id"]


# --- Cancelling -------------------------------------------------------------------------------


def test_cancelling_a_queued_bot_removes_it_from_the_queue(client_api, full_pool):
    bot_id = ask(client_api).json()["bot"]["id"]
    answer = client_api.post(f"bots/{bot_id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELLED")
    assert not QueueEntry.objects.exists()


def test_cancelling_a_bot_releases_its_slot(client_api, slot):
    client_api.post(f"bots/{ask(client_api).json()['bot']['id']}/cancel")
    slot.refresh_from_db()
    assert slot.status == "stopping"


def test_cancelling_an_ended_bot_returns_it_unchanged(client_api, assigned):
    assigned.release(BotStatus.DONE)
    answer = client_api.post(f"bots/{assigned.bot.pk}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "DONE")


def test_an_unknown_bot_cannot_be_cancelled(client_api):
    assert client_api.post("bots/99/cancel").status_code == 404


def test_an_idle_slot_is_used_before_the_pool_grows(client_api):
    SlotFactory(number=5)
    assert ask(client_api).json()["bot"]["slotName"] == "pool-google-meet-005"
