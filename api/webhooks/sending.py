"""One HTTP request to a client's webhook, with a hard time limit."""

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from api.webhooks.addresses import Target, WrongWebhookAddress, find_target
from core.logs import one_line

CONNECT_TIMEOUT = 3.0
TOTAL_TIMEOUT = 8.0
LONGEST_ANSWER = 300  # characters, as in the database


@dataclass(frozen=True)
class Result:
    """`answer` may hold what the receiver sent: it is made fit for the database."""

    delivered: bool
    answer: str
    status: int | None = None  # None: there was no answer

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer", one_line(self.answer)[:LONGEST_ANSWER])

    @property
    def receiver_is_down(self) -> bool:
        """Other events would fail, too. A refusal (4xx) concerns this event only."""
        return self.status is None or self.status >= 500 or self.status == 429


def post(url: str, body: bytes, *, headers: Mapping[str, str]) -> Result:
    """A 2xx response means delivered. Redirects, which could lead inside, are not followed."""
    try:
        target = find_target(url)
        with _connected(target) as connection:
            connection.request("POST", target.path, body=body, headers=dict(headers))
            status = connection.getresponse().status
    except WrongWebhookAddress as error:
        return Result(False, str(error))
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Result(False, f"{type(error).__name__}: {error}")
    return Result(200 <= status < 300, f"HTTP {status}", status)


@contextmanager
def _connected(target: Target) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(target.host, target.port, timeout=CONNECT_TIMEOUT)
    connection.sock = _socket(target)
    # The socket's timeout restarts with each byte: a receiver that sends one every second would
    # keep the connection open forever.
    alarm = threading.Timer(TOTAL_TIMEOUT, _cut, [connection.sock])
    alarm.start()
    try:
        yield connection
    finally:
        alarm.cancel()
        connection.close()


def _socket(target: Target) -> socket.socket:
    plain = socket.create_connection((target.ip, target.port), timeout=CONNECT_TIMEOUT)
    if not target.secure:
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)
    except OSError:
        plain.close()
        raise


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # already closed
