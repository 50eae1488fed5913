"""Logs, errors, history and responses contain no secrets."""

import logging

import pytest

from api.keys import create_api_key
from bots.models import BotEvent
from tests.api.conftest import MEETING, Api
from tests.log_lines import OURS, log_lines

# Much is logged only after the commit.
pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = {"password": "config-secret"}


@pytest.fixture
def everything_logged(caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="django.request")
    # SQL with parameters is logged only with DEBUG=true, on a developer's machine.
    caplog.set_level(logging.WARNING, logger="django.db.backends")
    # Our loggers do not propagate.
    ours = [logging.getLogger(name) for name in OURS]
    for logger in ours:
        logger.addHandler(caplog.handler)
        caplog.set_level(logging.DEBUG, logger=logger.name)
    yield caplog
    for logger in ours:
        logger.removeHandler(caplog.handler)


def test_an_api_key_is_in_no_log_and_no_error(db, everything_logged):
    key = create_api_key(name="app")
    answers = [
        Api(key).post("bots", {"meetingUrl": MEETING, "config": CONFIG}),
        Api(key).post("bots", {"meetingUrl": "https://x/", "config": CONFIG}),
        Api(key).post("slots/pool-google-meet-001/release", {"reason": "x"}),
        Api(key + "x").get("bots"),
        Api(key).call("DELETE", "bots"),
        Api(key).get("nothing"),
    ]
    output = everything_logged.text + "".join(answer.content.decode() for answer in answers)
    assert key not in output
    assert "config-secret" not in output


def test_a_meeting_address_is_in_no_log(client_api, everything_logged):
    """Zoom and Teams addresses contain the meeting's password."""
    meeting = {"meetingUrl": "https://zoom.us/j/1234567890?pwd=meeting-secret"}
    bot_id = client_api.post("bots", meeting).json()["bot"]["id"]
    client_api.post("bots", {**meeting, "priority": -1})
    client_api.get(f"bots/{bot_id}")
    client_api.post(f"bots/{bot_id}/cancel")
    assert f"Bot #{bot_id}" in everything_logged.text
    assert "meeting-secret" not in everything_logged.text


def test_a_bot_token_is_in_no_log_and_no_history(assigned, everything_logged):
    assigned.heartbeat()
    assigned.report("IN_CALL")
    assigned.report("nonsense")
    output = everything_logged.text + str(list(BotEvent.objects.values()))
    assert assigned.token not in output


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_the_webhook_secret_is_in_no_log(db, settings, everything_logged, method):
    Api().call(method, f"coolify/webhook/{settings.COOLIFY_WEBHOOK_SECRET}")
    assert settings.COOLIFY_WEBHOOK_SECRET not in everything_logged.text


@pytest.mark.parametrize("path", ["/coolify/webhook/{}", "/webhook/{}", "/coolify-webhooks/{}/"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_the_webhook_secret_is_in_no_log_if_the_address_is_wrong(db, settings, path, method):
    with log_lines() as lines:
        Api().call(method, path.format(settings.COOLIFY_WEBHOOK_SECRET))
    assert "Not Found" in str(lines)
    assert settings.COOLIFY_WEBHOOK_SECRET not in str(lines)


def test_an_internal_error_is_logged_but_not_shown(client_api, everything_logged, monkeypatch):
    def break_down(*args, **kwargs):
        raise RuntimeError("inner workings")

    monkeypatch.setattr("api.clients.ask_for_bot", break_down)
    answer = client_api.post("bots", {"meetingUrl": MEETING, "config": CONFIG})
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert "inner workings" not in answer.content.decode()
    assert "inner workings" in everything_logged.text
    assert "config-secret" not in everything_logged.text


def test_a_client_does_not_see_a_bots_config(client_api):
    bot_id = client_api.post("bots", {"meetingUrl": MEETING, "config": CONFIG}).json()["bot"]["id"]
    for path in ("bots", f"bots/{bot_id}", f"bots/{bot_id}/events", "slots"):
        assert "config-secret" not in client_api.get(path).content.decode()
