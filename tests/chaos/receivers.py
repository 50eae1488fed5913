"""Receivers of webhooks: one that always answers, and one that can hang."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMES = ("steady", "moody")
LONGEST_SILENCE = 10.0  # seconds; longer than Botpool waits for an answer


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name = name
        self.hangs = threading.Event()
        self.received: set[int] = set()  # the ids of events

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.name}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that was killed is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.hangs.is_set():
            time.sleep(LONGEST_SILENCE)
            return
        self.server.received.add(json.loads(body)["eventId"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def running_receivers() -> Iterator[dict[str, Receiver]]:
    receivers = {name: Receiver(name) for name in NAMES}
    for receiver in receivers.values():
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
    try:
        yield receivers
    finally:
        for receiver in receivers.values():
            receiver.shutdown()
            receiver.server_close()
