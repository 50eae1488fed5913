"""A receiver that does not answer delays its own events only."""

import socket
import threading
from collections import Counter
from contextlib import contextmanager

import pytest

from api.keys import create_api_key
from api.webhooks import sending
from api.webhooks.deliveries import _claim_due, deliver_webhooks, note_events
from bots.models import Bot, WebhookEndpoint
from bots.moves import Outcome
from bots.status import BotStatus
from pool.lifecycle import end_bot
from tests.api.conftest import MEETING, Api
from tests.api.test_webhooks import Receiver

pytestmark = pytest.mark.django_db


class DeadHost:
    """Accepts connections and never answers."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/"
        self.held = []

    def accept(self):
        while True:
            try:
                self.held.append(self.listener.accept()[0])
            except OSError:
                return


@contextmanager
def dead_host():
    host = DeadHost()
    thread = threading.Thread(target=host.accept)
    thread.start()
    yield host
    host.listener.shutdown(socket.SHUT_RDWR)
    host.listener.close()
    thread.join()
    for connection in host.held:
        connection.close()


def three_events(api):
    bot = Bot.objects.get(pk=api.post("bots", {"meetingUrl": MEETING}).json()["bot"]["id"])
    end_bot(bot, Outcome(BotStatus.CANCELLED, "Not needed", "test"))


@contextmanager
def serving(receiver):
    thread = threading.Thread(target=receiver.server.serve_forever, args=[0.02])
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


class Received(list):
    """Notes with each event how often the dead host had been called until then."""

    def __init__(self, dead):
        self.dead, self.tries_before = dead, []

    def append(self, event):
        self.tries_before.append(len(self.dead.held))
        super().append(event)


def test_600_events_to_a_dead_host_do_not_delay_another_client(full_pool, settings, monkeypatch):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    monkeypatch.setattr(sending, "CONNECT_TIMEOUT", 0.5)
    with dead_host() as dead, serving(Receiver()) as healthy:
        healthy.got = Received(dead)
        unlucky = Api(create_api_key(name="unlucky", webhook_url=dead.url))
        for _ in range(200):
            three_events(unlucky)
        three_events(Api(create_api_key(name="lucky", webhook_url=healthy.url)))
        deliver_webhooks()
    assert sorted(healthy.statuses) == ["CANCELLED", "PENDING", "QUEUED"]
    assert max(healthy.got.tries_before) <= 16


def test_endpoints_of_one_client_leave_half_of_the_calls_to_others(full_pool, settings):
    """Each name of a receiver is an endpoint of its own, and names cost nothing."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    flood = Api(create_api_key(name="flood"))
    for number in range(20):
        address = f"http://127.0.0.{number + 1}:9/"
        assert flood.post("bots", {"meetingUrl": MEETING, "webhookUrl": address}).status_code == 201
    three_events(Api(create_api_key(name="quiet", webhook_url="http://127.0.0.99:9/")))
    note_events()
    claimed = Counter(delivery.webhook.api_key.name for delivery in _claim_due([]))
    assert claimed == {"flood": 16, "quiet": 3}


@pytest.mark.parametrize(
    "other",
    ["http://h.example:80/b", "http://H.example/", "http://h.example.:080/b", "HTTP://h.example?c"],
)
def test_one_receiver_is_one_endpoint_however_it_is_spelled(full_pool, other):
    api = Api(create_api_key(name="app"))
    for address in ("http://h.example/a", other):
        assert api.post("bots", {"meetingUrl": MEETING, "webhookUrl": address}).status_code == 201
    assert [each.url for each in WebhookEndpoint.objects.all()] == ["http://h.example"]


def test_an_endpoint_that_failed_gets_one_call_until_it_answers(full_pool, settings):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    api = Api(create_api_key(name="unlucky", webhook_url="http://127.0.0.1:9/"))
    for _ in range(3):
        three_events(api)
    note_events()
    WebhookEndpoint.objects.update(failures=1)
    claimed = _claim_due([])
    assert len(claimed) == 1
    assert _claim_due(claimed) == []
