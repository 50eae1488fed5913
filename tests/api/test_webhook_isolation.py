"""A receiver that does not answer delays its own events only."""

import socket
import threading
from contextlib import contextmanager

import pytest

from api.keys import create_api_key
from api.webhooks import sending
from api.webhooks.deliveries import deliver_webhooks
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


def test_an_endpoint_that_failed_is_tried_with_one_event(full_pool, settings, monkeypatch):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    monkeypatch.setattr(sending, "CONNECT_TIMEOUT", 0.5)
    with dead_host() as dead:
        three_events(Api(create_api_key(name="unlucky", webhook_url=dead.url)))
        WebhookEndpoint.objects.update(failures=1)
        deliver_webhooks()
    assert len(dead.held) == 1
