import hashlib
import hmac
import json
import socket
import threading
from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import standardwebhooks
from django.conf import settings as configured
from django.db import DataError
from django.db.models import F
from django.db.models.functions import Now

from api.keys import create_api_key
from api.webhooks import addresses, deliveries, sending
from api.webhooks.addresses import WrongWebhookAddress, check_webhook_address, find_target
from api.webhooks.deliveries import deliver_webhooks, note_events
from api.webhooks.endpoints import (
    create_endpoint,
    enable_endpoint,
    pause_after,
    send_again,
)
from api.webhooks.signatures import rotate_secret, secret_of
from botpool.telemetry.retention import prune
from bots.models import ApiKey, Bot, BotEvent, Webhook, WebhookDelivery, WebhookEndpoint
from bots.moves import Outcome
from bots.status import BotStatus
from pool.lifecycle import end_bot
from tests.api.conftest import MEETING, Api
from tests.log_lines import log_lines

pytestmark = pytest.mark.django_db


class Receiver:
    """A client's local server. Records requests and responds with the statuses in `answers`."""

    def __init__(self):
        self.got, self.answers = [], []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, dict(self.headers), body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?x=1"

    @property
    def statuses(self):
        return [json.loads(body)["status"] for _, _, body in self.got]


@pytest.fixture
def receiver():
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=[0.02])
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


@pytest.fixture
def private_allowed(settings):
    settings.WEBHOOK_ALLOW_PRIVATE = True


@pytest.fixture
def api(private_allowed, receiver):
    return Api(create_api_key(name="app", webhook_url=receiver.url))


def make_due():
    WebhookDelivery.objects.filter(due_at__isnull=False).update(due_at=Now())
    WebhookEndpoint.objects.update(paused_until=None)


def test_each_status_change_is_sent_to_the_keys_address(api, receiver):
    bot = Bot.objects.get(pk=api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"])
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    assert deliver_webhooks() == 3
    assert sorted(receiver.statuses) == ["CANCELLED", "DEPLOYING", "PENDING"]


def test_a_delivered_event_is_not_sent_again(api, receiver):
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert deliver_webhooks() == 0
    assert len(receiver.got) == 2


def test_the_bots_address_wins_over_the_keys(api, receiver):
    url = receiver.url.replace("/hook", "/for-this-bot")
    api.post("bots", {"meetingUrl": MEETING, "webhookUrl": url})
    deliver_webhooks()
    assert {path for path, _, _ in receiver.got} == {"/for-this-bot?x=1"}


def test_a_bot_without_an_address_sends_nothing(client_api):
    client_api.post("bots", {"meetingUrl": MEETING})
    assert deliver_webhooks() == 0


def test_the_receiver_can_check_the_signature_with_the_hashed_api_key(private_allowed, receiver):
    key = create_api_key(name="app", webhook_url=receiver.url)
    Api(key).post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    _, headers, body = receiver.got[0]
    secret = hashlib.sha256(key.encode()).hexdigest()
    message = headers["X-Botpool-Timestamp"].encode() + b"." + body
    expected = hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
    assert headers["X-Botpool-Signature"] == f"sha256={expected}"


def test_it_sends_the_bot_and_the_change(api, receiver):
    bot_id = api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"]
    deliver_webhooks()
    first = min((json.loads(body) for _, _, body in receiver.got), key=lambda e: e["eventId"])
    assert first["botId"] == bot_id
    assert (first["fromStatus"], first["status"]) == (None, "PENDING")
    assert first["reason"] == "Bot requested"


def test_a_failed_delivery_is_tried_again_later(api, receiver):
    receiver.answers = [500, 500]
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert not WebhookDelivery.objects.filter(delivered_at__isnull=False).exists()
    assert WebhookDelivery.objects.first().last_answer == "HTTP 500"
    assert deliver_webhooks() == 0  # not due yet
    make_due()
    deliver_webhooks()
    assert WebhookDelivery.objects.filter(delivered_at__isnull=False, attempts=2).count() == 2


def test_it_gives_up_after_the_configured_number_of_attempts(api, receiver, settings):
    settings.WEBHOOK_ATTEMPTS = 1
    receiver.answers = [500, 500]
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert WebhookDelivery.objects.filter(due_at=None, delivered_at=None).count() == 2


def test_a_failure_is_logged_under_the_bots_correlation_id(api, receiver):
    receiver.answers = [500, 500]
    asked = api.post("bots", {"meetingUrl": MEETING}, **{"X-Correlation-Id": "order-4711"})
    bot_id = asked.json()["bot"]["id"]
    with log_lines() as lines:
        deliver_webhooks()
    assert {(line["correlationId"], line["bot"]) for line in lines} == {("order-4711", bot_id)}
    assert lines[0]["message"].startswith(f"Webhook for Bot #{bot_id}, event ")


def test_pauses_grow_up_to_an_hour():
    assert [pause_after(n).total_seconds() for n in (1, 2, 3, 99)] == [5, 10, 20, 3600]


def test_a_redirect_is_not_followed(api, receiver):
    receiver.answers = [302, 302]
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert {path for path, _, _ in receiver.got} == {"/hook?x=1"}
    assert WebhookDelivery.objects.first().last_answer == "HTTP 302"


def test_another_worker_sends_what_a_killed_worker_had_claimed(api, receiver, monkeypatch):
    api.post("bots", {"meetingUrl": MEETING})
    with monkeypatch.context() as killed, pytest.raises(SystemExit):
        killed.setattr("api.webhooks.deliveries._record_finished", lambda _: exit())
        deliver_webhooks()
    assert not WebhookDelivery.objects.filter(delivered_at__isnull=False).exists()
    make_due()  # the claim expires
    deliver_webhooks()
    assert WebhookDelivery.objects.filter(delivered_at__isnull=False).count() == 2


def test_a_delivery_whose_senders_all_died_is_given_up(api, receiver, settings):
    api.post("bots", {"meetingUrl": MEETING})
    note_events()
    WebhookDelivery.objects.update(attempts=settings.WEBHOOK_ATTEMPTS)
    assert deliver_webhooks() == 0
    assert set(WebhookDelivery.objects.values_list("due_at", "last_answer")) == {
        (None, "No result of the last attempt was stored")
    }


def test_a_result_that_cannot_be_stored_costs_no_other(api, receiver, monkeypatch):
    api.post("bots", {"meetingUrl": MEETING})
    note_events()
    poison = WebhookDelivery.objects.earliest("pk")
    record = deliveries._record

    def fail_once(delivery, result):
        if delivery.pk == poison.pk:
            raise DataError("value too long")
        record(delivery, result)

    monkeypatch.setattr(deliveries, "_record", fail_once)
    deliver_webhooks()
    stored = WebhookDelivery.objects.filter(delivered_at__isnull=False)
    assert list(stored.values_list("pk", flat=True)) == [poison.pk + 1]


def test_more_events_than_one_statement_holds_values_are_noted(api):
    """As after hours in which no worker ran."""
    bot = Bot.objects.get(pk=api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"])
    [event] = bot.events.all()[:1]
    event.pk, event.from_status, event.to_status = None, "JOINING_CALL", "IN_WAITING_ROOM"
    BotEvent.objects.bulk_create([copy(event) for _ in range(14_000)], batch_size=1_000)
    note_events()
    assert WebhookDelivery.objects.count() == bot.events.exclude(from_status=F("to_status")).count()


def test_a_webhook_is_closed_after_its_bots_last_event(api):
    bot = Bot.objects.get(pk=api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"])
    deliver_webhooks()
    assert Webhook.objects.get().is_open
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    deliver_webhooks()
    assert not Webhook.objects.get().is_open


def test_old_deliveries_are_pruned_and_not_sent_again(api, receiver, settings):
    bot = Bot.objects.get(pk=api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"])
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    deliver_webhooks()
    assert dict(prune())["webhook deliveries"] == 0
    WebhookDelivery.objects.update(created_at=Now() - timedelta(days=400))
    assert dict(prune())["webhook deliveries"] == 3
    assert deliver_webhooks() == 0


# --- Standard Webhooks ----------------------------------------------------------------------


def verifies(secret, received) -> bool:
    """Whether the reference library accepts it."""
    _, headers, body = received
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        standardwebhooks.Webhook(secret).verify(body, lower)
    except standardwebhooks.WebhookVerificationError:
        return False
    return True


def test_the_reference_library_accepts_our_signatures(api, receiver):
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    secret = secret_of(WebhookEndpoint.objects.get())
    assert all(verifies(secret, each) for each in receiver.got)
    assert not verifies(secret_of(ApiKey.objects.get()), receiver.got[0])


def test_the_id_is_that_of_the_event_and_stays_when_it_is_sent_again(api, receiver):
    receiver.answers = [500, 500]
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    make_due()
    deliver_webhooks()
    ids = [headers["webhook-id"] for _, headers, _ in receiver.got]
    assert sorted(ids) == sorted(2 * list(set(ids))) and len(set(ids)) == 2


def test_after_a_rotation_both_secrets_sign_for_a_time(api, receiver):
    endpoint = WebhookEndpoint.objects.get()
    old = secret_of(endpoint)
    new = rotate_secret(endpoint)
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert new != old
    assert verifies(old, receiver.got[0]) and verifies(new, receiver.got[0])
    WebhookEndpoint.objects.update(old_secret_until=Now())
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert verifies(new, receiver.got[-1]) and not verifies(old, receiver.got[-1])


def test_a_former_secret_key_still_signs(api, receiver, settings):
    old = secret_of(WebhookEndpoint.objects.get())
    settings.SECRET_KEY_FALLBACKS = [configured.SECRET_KEY]
    settings.SECRET_KEY = "another"
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert verifies(old, receiver.got[0])
    assert verifies(secret_of(WebhookEndpoint.objects.get()), receiver.got[0])


def test_addresses_in_requests_share_the_secret_of_their_key(private_allowed, receiver):
    api = Api(create_api_key(name="app"))
    api.post("bots", {"meetingUrl": MEETING, "webhookUrl": receiver.url})
    api.post("bots", {"meetingUrl": MEETING, "webhookUrl": f"{receiver.url}&y=2"})
    deliver_webhooks()
    secret = secret_of(ApiKey.objects.get())
    assert len(receiver.got) == 4
    assert all(verifies(secret, each) for each in receiver.got)
    assert WebhookEndpoint.objects.count() == 1  # one per host


def test_no_secret_is_stored(api):
    secret = secret_of(WebhookEndpoint.objects.get()).removeprefix("whsec_")
    rows = [*WebhookEndpoint.objects.values(), *ApiKey.objects.values()]
    assert secret not in repr(rows)


# --- Endpoints ------------------------------------------------------------------------------


def test_each_endpoint_of_a_key_gets_the_events_it_asks_for(api, receiver):
    key = ApiKey.objects.get()
    ends = create_endpoint(key, receiver.url.replace("hook", "ends"), statuses=["CANCELLED"])
    bot = Bot.objects.get(pk=api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"])
    deliver_webhooks()
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))
    deliver_webhooks()
    got = sorted((path, json.loads(body)["status"]) for path, _, body in receiver.got)
    assert got == [
        ("/ends?x=1", "CANCELLED"),
        ("/hook?x=1", "CANCELLED"),
        ("/hook?x=1", "DEPLOYING"),
        ("/hook?x=1", "PENDING"),
    ]
    assert not Webhook.objects.filter(is_open=True).exists()
    assert ends.deliveries.count() == 1


def test_a_failing_endpoint_is_paused_longer_each_time(api, receiver):
    receiver.answers = [503] * 10
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    endpoint = WebhookEndpoint.objects.get()
    assert endpoint.failures == 1 and endpoint.failing_since and endpoint.paused_until
    first = len(receiver.got)
    WebhookDelivery.objects.update(due_at=Now())
    assert deliver_webhooks() == 0  # the endpoint is paused
    make_due()
    deliver_webhooks()
    assert len(receiver.got) == first + 1  # one try shows whether it is back
    assert WebhookEndpoint.objects.get().failures == 2
    receiver.answers = []
    make_due()
    deliver_webhooks()
    endpoint.refresh_from_db()
    assert (endpoint.failures, endpoint.failing_since, endpoint.paused_until) == (0, None, None)


def test_a_refused_event_does_not_pause_its_endpoint(api, receiver):
    receiver.answers = [400]
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert WebhookEndpoint.objects.get().paused_until is None
    assert WebhookDelivery.objects.filter(delivered_at__isnull=False).count() == 1


def test_an_endpoint_that_fails_for_too_long_is_disabled_and_keeps_its_events(api, receiver):
    receiver.answers = [500, 500]
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    receiver.answers = [500]
    WebhookEndpoint.objects.update(failing_since=Now() - timedelta(days=2))
    make_due()
    with log_lines() as lines:
        deliver_webhooks()
    endpoint = WebhookEndpoint.objects.get()
    assert endpoint.disabled_at
    assert any("is disabled" in line["message"] for line in lines)
    make_due()
    api.post("bots", {"meetingUrl": MEETING})  # its events are kept, too
    assert deliver_webhooks() == 0
    assert not WebhookDelivery.objects.filter(due_at__isnull=False).exists()
    assert enable_endpoint(endpoint)
    deliver_webhooks()
    assert WebhookDelivery.objects.filter(delivered_at__isnull=False).count() == 4


def test_an_endpoint_that_is_gone_is_disabled_at_once(api, receiver):
    receiver.answers = [410, 410]
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert "410" in WebhookEndpoint.objects.get().disabled_because


def test_a_delivered_event_can_be_sent_again(api, receiver):
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    delivery = WebhookDelivery.objects.first()
    send_again(delivery)
    assert deliver_webhooks() == 1
    assert len(receiver.got) == 3
    delivery.refresh_from_db()
    assert delivery.delivered_at and delivery.attempts == 1


def test_rows_of_the_version_before_are_adopted(api, receiver):
    api.post("bots", {"meetingUrl": MEETING})
    api.post("bots", {"meetingUrl": MEETING, "webhookUrl": receiver.url.replace("hook", "own")})
    Webhook.objects.update(endpoint=None)
    deliver_webhooks()
    assert {path for path, _, _ in receiver.got} == {"/hook?x=1", "/own?x=1"}
    assert not WebhookDelivery.objects.filter(endpoint=None).exists()


# --- Addresses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://localhost/",
        "http://api.localhost:8000/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
    ],
)
def test_a_private_address_is_refused_with_the_request(client_api, url):
    answer = client_api.post("bots", {"meetingUrl": MEETING, "webhookUrl": url})
    assert answer.status_code == 422
    assert "WEBHOOK_ALLOW_PRIVATE" in answer.json()["errors"]["webhookUrl"][0]


@pytest.mark.parametrize(
    "url",
    ["ftp://example.com/", "https://", "example.com", "http://a b/", "http://u:p@example.com/"],
)
def test_an_invalid_address_is_refused(url):
    with pytest.raises(WrongWebhookAddress):
        check_webhook_address(url)


def test_a_key_cannot_have_a_private_address():
    with pytest.raises(WrongWebhookAddress):
        create_api_key(name="app", webhook_url="http://10.0.0.1/")


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1"])
def test_a_host_with_a_private_ip_is_refused_before_sending(host):
    with pytest.raises(WrongWebhookAddress, match=r"private|cannot be resolved"):
        find_target(f"http://{host}:9/")


def test_nothing_is_sent_to_an_address_that_became_private(settings, receiver):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    api = Api(create_api_key(name="app", webhook_url=receiver.url))
    settings.WEBHOOK_ALLOW_PRIVATE = False
    api.post("bots", {"meetingUrl": MEETING})
    deliver_webhooks()
    assert not receiver.got
    assert "private" in WebhookDelivery.objects.first().last_answer


def test_it_resolves_the_host_once_and_calls_the_ip_that_was_checked(api, receiver, monkeypatch):
    lookups = []
    look_up = socket.getaddrinfo

    def counted(host, *args, **kwargs):
        if host == "localhost":
            lookups.append(host)
        return look_up("127.0.0.1" if host == "localhost" else host, *args, **kwargs)

    monkeypatch.setattr(addresses.socket, "getaddrinfo", counted)
    result = sending.post(receiver.url.replace("127.0.0.1", "localhost"), b"{}", headers={})
    assert result.delivered
    assert lookups == ["localhost"]


# --- Time limits ----------------------------------------------------------------------------


@contextmanager
def dripping_server():
    """Accepts a connection and sends a byte now and then, forever."""
    listener, stop = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def drip():
        connection, _ = listener.accept()
        with connection:
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    stop.set()
    thread.join()
    listener.close()


def test_a_receiver_that_drips_is_cut_off(private_allowed, monkeypatch):
    monkeypatch.setattr(sending, "TOTAL_TIMEOUT", 0.3)
    with dripping_server() as url:
        assert not sending.post(url, b"{}", headers={}).delivered


@contextmanager
def answering(answer: bytes):
    """Answers one request with these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    thread.join()
    listener.close()


@pytest.mark.parametrize("answer", [b"\x00\x00garbage\r\n\r\n", b"\x1b[31m" * 9000])
def test_garbage_of_a_receiver_can_be_stored(private_allowed, answer):
    with answering(answer) as url:
        api = Api(create_api_key(name="app", webhook_url=url))
        api.post("bots", {"meetingUrl": MEETING})
        assert deliver_webhooks() > 0
    stored = WebhookDelivery.objects.earliest("pk").last_answer
    assert stored.isprintable() and 0 < len(stored) <= 300


def test_a_long_host_that_does_not_exist_is_a_failed_delivery(client_api):
    host = "a." * 150 + "invalid"
    client_api.post("bots", {"meetingUrl": MEETING, "webhookUrl": f"http://{host}/"})
    deliver_webhooks()
    assert WebhookDelivery.objects.earliest("pk").last_answer.startswith("The host a.a.")
    assert WebhookEndpoint.objects.get().failures == 1


def test_a_host_that_takes_too_long_to_resolve_ends_no_pass(api, receiver, monkeypatch):
    resolved = threading.Event()
    monkeypatch.setattr(deliveries, "LONGEST_PASS", 0.1)
    monkeypatch.setattr(deliveries, "LAST_WAIT", 0.2)
    monkeypatch.setattr(deliveries, "_post", lambda delivery: resolved.wait(60))
    api.post("bots", {"meetingUrl": MEETING})
    try:
        deliver_webhooks()
    finally:
        resolved.set()
    assert "No answer in time" in WebhookDelivery.objects.earliest("pk").last_answer


def test_a_refused_connection_is_a_failed_delivery(private_allowed):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        result = sending.post(f"http://127.0.0.1:{port}/", b"{}", headers={})
    assert not result.delivered
    assert "ConnectionRefused" in result.answer
