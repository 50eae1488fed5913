import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dashboard.notifications import delivery
from dashboard.notifications.channels import save_channel
from dashboard.notifications.records import NotificationChannel, NotificationRule
from dashboard.notifications.services import SERVICES
from tests.dashboard.conftest import administrator, operator, viewer

__all__ = ["SERVICES", "administrator", "operator", "viewer"]


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """A busy machine takes long to start the process that sends."""
    monkeypatch.setattr(delivery, "TIME_LIMIT", 60.0)


class Receiver:
    """Answers every POST with `status`, and keeps what it got."""

    def __init__(self, *, status=200, location=""):
        self.got, self.status, self.location = [], status, location
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                receiver.got.append((self.path, dict(self.headers), body))
                self.send_response(receiver.status)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"

    @property
    def url(self):
        return f"http://{self.address}/hook/s3cret"

    @property
    def messages(self):
        return [json.loads(body) for _, _, body in self.got]


@contextmanager
def serving(**options):
    receiver = Receiver(**options)
    thread = threading.Thread(target=receiver.server.serve_forever, args=[0.02])
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


@pytest.fixture
def receiver(settings):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with serving() as found:
        yield found


@pytest.fixture
def silent_address(settings):
    """Accepts connections and never answers."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def make_channel(url, *, name="ops", **fields):
    channel = NotificationChannel(**fields)
    save_channel(channel, name=name, url=url)
    return channel


def make_rule(**fields):
    NotificationRule.objects.all().delete()
    return NotificationRule.objects.create(name="all", **fields)
