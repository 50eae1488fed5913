"""The HTTP server: one thread per connection, kept alive."""

import logging
import socket
import struct
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from coolify.simulator.http.gateway import Gateway
from coolify.simulator.messages import Answer, ConnectionLost, Request

logger = logging.getLogger(__name__)

# For SO_LINGER: close with a reset instead of an orderly shutdown.
LINGER_NOT = struct.pack("ii", 1, 0)


class HttpServer(ThreadingHTTPServer):
    """HTTP/1.1 with one thread per connection; `close_connections` ends those still open."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(
        self,
        address: tuple[str, int],
        *,
        gateway: Gateway,
        listener: socket.socket | None = None,
    ) -> None:
        self.gateway = gateway
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, Handler, bind_and_activate=listener is None)
        if listener is not None:
            self.socket.close()
            self.socket = listener
            self._note_address(listener.getsockname())

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up; log everything else."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            logger.exception("The simulator failed to answer a request")

    def close_connections(self) -> None:
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client closed it already
                    continue

    def server_bind(self) -> None:
        """Skip the standard server's lookup of the host name, which can be slow."""
        TCPServer.server_bind(self)
        self._note_address(self.server_address)

    def _note_address(self, address: Any) -> None:
        self.server_address = address
        self.server_name, self.server_port = str(address[0]), address[1]


class Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer_request(self) -> None:
        try:
            answer = self.server.gateway.answer(self._request())
        except ConnectionLost:
            self._reset()
        else:
            self._write(answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer_request

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        return Request(
            method=self.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
            address=self.client_address[0],
        )

    def _write(self, answer: Answer) -> None:
        """Send head and body in one write: a second one could wait for a TCP acknowledgement."""
        body = answer.encoded()
        headers = {
            "Date": self.date_time_string(),
            "Content-Type": answer.content_type,
            "Content-Length": str(len(body)),
            **answer.headers,
        }
        lines = [f"HTTP/1.1 {answer.status} {phrase(answer.status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests: `Traffic` records them."""


def phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"
