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

# An immediate reset instead of an orderly end.
LINGER_NOT = struct.pack("ii", 1, 0)


class HttpServer(ThreadingHTTPServer):
    """HTTP/1.1 with connections kept alive, a thread for each, all of them closed at the stop."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], *, gateway: Gateway) -> None:
        self.gateway = gateway
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news; anything else is a fault of the simulator."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            logger.exception("The simulator failed to answer")

    def close_connections(self) -> None:
        with self._guard:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # it was closed by the other side
                    continue

    def server_bind(self) -> None:
        """Without the look-up of the host's name that the standard server makes."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]


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
        """Head and body in one piece: two would wait for each other's acknowledgement."""
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
        """Requests are kept in the record, not in the log."""


def phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"
