"""The client verifies what Botpool signs, and what the reference library signs."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from botpool_client import InvalidWebhook, verify_webhook
from standardwebhooks import Webhook

from api.webhooks.signatures import signed_headers

SECRET, OTHER = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
CHANGE = {
    "event": "bot.status",
    "eventId": 42,
    "at": "2026-11-16T09:30:00.123456Z",
    "botId": 7,
    "correlationId": "c",
    "platform": "zoom",
    "meetingUrl": "https://zoom.us/j/123456789",
    "fromStatus": None,
    "status": "PENDING",
    "reason": "Requested",
    "aFieldOfTomorrow": 1,
}
BODY = json.dumps(CHANGE).encode()


def signed(*secrets, body=BODY, late=timedelta(0)):
    at = datetime.now(UTC) - late
    return signed_headers(body, message_id="event_42", at=at, secrets=secrets)


def test_a_webhook_of_botpool_is_read():
    change = verify_webhook(signed(SECRET), BODY, secret=SECRET)
    assert (change.bot_id, change.status, change.from_status) == (7, "PENDING", None)


def test_what_the_reference_library_signs_is_accepted():
    at = datetime.now(UTC)
    signature = Webhook(SECRET).sign("msg", at, BODY.decode())
    headers = {
        "Webhook-Id": "msg",
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": signature,
    }
    assert verify_webhook(headers, BODY, secret=SECRET).event_id == 42


def test_one_of_several_signatures_is_enough():
    headers = signed(OTHER, SECRET)
    headers["webhook-signature"] += " v2,other"
    assert verify_webhook(headers, BODY, secret=SECRET)
    assert verify_webhook(signed(OTHER), BODY, secret=[SECRET, OTHER])


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (signed(OTHER), BODY),
        (signed(SECRET), BODY + b" "),
        ({**signed(SECRET), "webhook-id": "event_43"}, BODY),
        ({**signed(SECRET), "webhook-signature": ""}, BODY),
        ({}, BODY),
        # WSGI and other servers may pass on bytes of a header as lone surrogates.
        ({**signed(SECRET), "webhook-id": "\udcff"}, BODY),
        ({**signed(SECRET), "webhook-timestamp": "\ud800"}, BODY),
        ({**signed(SECRET), "webhook-signature": "v1,\udcff"}, BODY),
    ],
)
def test_what_is_not_signed_so_is_refused(headers, body):
    with pytest.raises(InvalidWebhook, match="signature"):
        verify_webhook(headers, body, secret=SECRET)


@pytest.mark.parametrize("late", [timedelta(minutes=6), timedelta(minutes=-6)])
def test_an_old_or_future_webhook_is_refused(late):
    headers = signed(SECRET, late=late)
    with pytest.raises(InvalidWebhook, match="more than 300 s"):
        verify_webhook(headers, BODY, secret=SECRET)
    assert verify_webhook(headers, BODY, secret=SECRET, tolerance=600)


def test_a_body_of_another_kind_is_refused():
    with pytest.raises(InvalidWebhook, match="not an event"):
        verify_webhook(signed(SECRET, body=b"{}"), b"{}", secret=SECRET)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_not base64"])
def test_a_secret_that_is_none_is_an_error_of_the_program(secret):
    with pytest.raises(ValueError, match="secret"):
        verify_webhook(signed(SECRET), BODY, secret=secret)
