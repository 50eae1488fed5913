"""Messages to a real receiver that works, hangs, refuses or redirects."""

import logging
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from api.webhooks import sending as webhooks
from dashboard.notifications import delivery
from dashboard.notifications.channels import disable_channel
from dashboard.notifications.delivery import run_courier
from dashboard.notifications.records import Condition, Message, Notice, NotificationChannel
from dashboard.notifications.sending import ATTEMPTS, send_due, send_test
from tests.dashboard.notifications.conftest import make_channel, serving

pytestmark = pytest.mark.django_db


def message(channel, **fields):
    return Message.objects.create(channel=channel, title="Title", body="Body", **fields)


def state(row):
    row.refresh_from_db()
    return row.status, row.error


def due_again(row):
    Message.objects.filter(pk=row.pk).update(due_at=Now())


def test_a_webhook_gets_a_signed_message(receiver):
    sent = message(make_channel(receiver.url), items=[{"code": "lease_held"}])
    assert send_due() == 1
    assert state(sent) == ("sent", "")
    [(path, headers, _)] = receiver.got
    assert path == "/hook/s3cret"
    assert headers["webhook-signature"].startswith("v1,")
    assert receiver.messages[0]["items"] == [{"code": "lease_held"}]
    assert send_due() == 0


def test_a_service_gets_a_message_through_apprise(receiver):
    sent = message(make_channel(f"gotify://{receiver.address}/t0ken12345"))
    send_due()
    assert state(sent) == ("sent", "")
    [(path, _, body)] = receiver.got
    assert path.startswith("/message") and b"Body" in body


def test_a_receiver_that_hangs_delays_no_other(receiver, silent_address, monkeypatch):
    monkeypatch.setattr(webhooks, "CONNECT_TIMEOUT", 1.0)
    monkeypatch.setattr(delivery, "TIME_LIMIT", 6.0)
    hung = message(make_channel(f"gotify://{silent_address}/t0ken12345", name="silent service"))
    late = message(make_channel(f"http://{silent_address}/", name="silent webhook"))
    sent = message(make_channel(receiver.url, name="works"))
    assert send_due() == 3
    assert state(sent)[0] == "sent"
    assert state(late)[0] == state(hung)[0] == "waiting"
    assert "time" in state(hung)[1] or "answer" in state(hung)[1]


def test_a_redirect_is_not_followed_by_either_kind(settings):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with serving() as inside, serving(status=302, location=inside.url) as outside:
        webhook = message(make_channel(outside.url, name="webhook"))
        service = message(make_channel(f"gotify://{outside.address}/t0ken12345", name="service"))
        send_due()
        assert inside.got == []
    assert state(webhook) == ("waiting", "HTTP 302")
    assert state(service) == ("waiting", "It answered 302, a redirect, which is not followed.")


def test_a_name_that_leads_inwards_is_refused_when_the_message_is_sent(receiver, settings):
    settings.WEBHOOK_ALLOW_PRIVATE = False
    port = receiver.server.server_port
    outcome = run_courier(f"gotify://localhost:{port}/t0ken12345", title="t", body="b")
    assert "WEBHOOK_ALLOW_PRIVATE" in outcome.error
    assert receiver.got == []


def test_a_refusal_is_told_in_plain_words_and_without_the_address(receiver, caplog):
    receiver.status = 403
    sent = message(make_channel(f"gotify://{receiver.address}/t0ken12345"))
    with caplog.at_level(logging.DEBUG):
        send_due()
    assert state(sent) == ("waiting", "It answered 403 Forbidden.")
    assert "t0ken12345" not in caplog.text
    channel = NotificationChannel.objects.get()
    assert channel.failing_since and channel.last_error == "It answered 403 Forbidden."


def test_pauses_grow_and_then_it_is_given_up(receiver):
    receiver.status = 500
    sent = message(make_channel(receiver.url))
    pauses = []
    for _ in range(ATTEMPTS):
        send_due()
        sent.refresh_from_db()
        pauses.append(sent.due_at)
        due_again(sent) if sent.due_at else None
    assert len(receiver.got) == ATTEMPTS
    assert state(sent) == ("failed", "HTTP 500")
    assert pauses[-1] is None and all(pauses[:-1])
    assert pauses[3] - pauses[0] > timedelta(minutes=2)


def test_what_a_failed_message_told_is_news_again(receiver):
    receiver.status = 500
    channel = make_channel(receiver.url)
    sent = message(channel, attempts=ATTEMPTS - 1)
    fields = {"first_seen_at": Now(), "last_seen_at": Now(), "words": "x", "link": "/"}
    opened = Condition.objects.create(code="a", **fields)
    over = Condition.objects.create(code="b", resolved_at=Now(), **fields)
    for condition, said in ((opened, "open"), (over, "resolved")):
        Notice.objects.create(
            condition=condition, channel=channel, message=sent, said=said, at=Now()
        )
    send_due()
    assert list(Notice.objects.values_list("condition__code", "said")) == [("b", "open")]


def test_after_a_success_the_channel_works_again(receiver):
    channel = make_channel(receiver.url, failing_since=Now(), failures=3, last_error="HTTP 500")
    message(channel)
    send_due()
    channel.refresh_from_db()
    assert (channel.failing_since, channel.failures, channel.last_error) == (None, 0, "")


def test_a_process_that_dies_while_it_sends_leaves_the_message_to_another(receiver, monkeypatch):
    sent = message(make_channel(receiver.url))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("dashboard.notifications.sending.record", _dies)
        send_due()
    assert send_due() == 0  # claimed
    due_again(sent)
    assert send_due() == 1
    assert len(receiver.got) == 2  # at least once


def _dies(*_):
    raise KeyboardInterrupt


def test_an_address_of_another_secret_key_is_told(receiver, settings):
    sent = message(make_channel(receiver.url))
    settings.SECRET_KEY = "another"
    send_due()
    assert "Enter it again" in state(sent)[1]


def test_a_test_is_sent_at_once_and_tried_once(receiver):
    channel = make_channel(receiver.url)
    assert send_test(channel, by="ada").sent
    assert receiver.messages[0]["event"] == "notification.test"
    receiver.status = 404
    assert send_test(channel, by="ada").error == "HTTP 404"
    assert list(Message.objects.order_by("pk").values_list("status", "error")) == [
        ("sent", ""),
        ("failed", "HTTP 404"),
    ]


def test_a_disabled_channel_gets_nothing(receiver):
    channel = make_channel(receiver.url)
    sent = message(channel)
    assert disable_channel(channel)
    assert send_due() == 0
    assert state(sent) == ("failed", "The channel was disabled.")
