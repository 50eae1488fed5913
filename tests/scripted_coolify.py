"""A small HTTP server that sends the answers a test gives it and records the requests."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    connection: tuple[str, int]


@dataclass(frozen=True)
class Scripted:
    """An answer; `body` is sent as JSON unless it is bytes."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    # Writes the answer itself, to send a broken one.
    act: Callable[[BaseHTTPRequestHandler], None] | None = None


class ScriptedCoolify:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: list[Scripted] = []
        server = self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}/api/v1"

    def answers(self, body: Any = None, *, status: int = 200, **headers: str) -> None:
        """Add an answer; the last one is repeated."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._answers.append(Scripted(status=status, body=body, headers=named))

    def acts(self, act: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self._answers.append(Scripted(act=act))

    def breaks_off(self) -> None:
        """Read the request and close the connection."""
        self.acts(_hang_up)

    def next_answer(self) -> Scripted:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    @contextmanager
    def running(self) -> Iterator[ScriptedCoolify]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def _handler(scripted: ScriptedCoolify) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            parts = urlsplit(self.path)
            scripted.asked.append(
                Asked(
                    method=self.command,
                    path=parts.path.removeprefix("/api/v1"),
                    query=dict(parse_qsl(parts.query)),
                    headers=dict(self.headers.items()),
                    body=json.loads(raw) if raw else None,
                    connection=self.client_address,
                )
            )
            answer = scripted.next_answer()
            if answer.act:
                answer.act(self)
            else:
                self._send(answer)

        def _send(self, answer: Scripted) -> None:
            is_raw = isinstance(answer.body, bytes)
            content = answer.body if is_raw else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "text/html" if is_raw else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve

        def log_message(self, *args: Any) -> None:
            """Log nothing: tests use `asked`."""

    return Handler
