"""One client's connection: what it has sent so far, and what it has yet to receive."""

import socket
from contextlib import suppress
from typing import Any

from botpool.runtime.web.framing import Framing

RECEIVED_AT_ONCE = 65_536


class Outbox:
    """Takes an answer in place of the socket, so that no thread waits for its reader.

    What the system does not accept at once is kept, and the worker sends it later.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.unsent = bytearray()

    def sendall(self, data: bytes) -> None:
        self.unsent += data
        self.flush()

    def flush(self) -> bool:
        """Send what can be sent now; whether that was all."""
        try:
            while self.unsent:
                del self.unsent[: self._socket.send(self.unsent)]
        except BlockingIOError:
            return False
        return True

    def send(self, data: bytes) -> int:
        """gunicorn uses this only for 100 Continue, which the worker sends before the body."""
        return len(data)

    def shutdown(self, how: int) -> None:
        """gunicorn ends an answer that broke off by closing. The worker does that."""
        raise OSError("The worker closes the connection.")

    def close(self) -> None:
        """See `shutdown`."""


class Connection:
    def __init__(self, sock: socket.socket, client: Any, server: Any) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.sock = Outbox(sock)  # under the name by which gunicorn answers
        self.client = client
        self.server = server
        self.received = bytearray()
        self.framing = Framing()
        self.deadline = 0.0
        self.counted = 0  # of `held`, in the worker's sum
        self.closes = False  # after the answer

    @property
    def held(self) -> int:
        """Bytes of memory."""
        return len(self.received) + self.framing.held + len(self.sock.unsent)

    @property
    def has_begun(self) -> bool:
        """Whether a part of the next request is here."""
        return bool(self.received or self.framing.held)

    def receive(self) -> bool:
        """Read what has arrived; False at the end of the connection."""
        try:
            data = self.socket.recv(RECEIVED_AT_ONCE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.received += data
        return bool(data)

    def ask_for_body(self) -> None:
        """Only if the client asks first. If it has gone, reading will tell."""
        if self.framing.wants_continue:
            self.framing.wants_continue = False
            with suppress(OSError):
                self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def take_request(self) -> Framing:
        """The complete request; a new one begins."""
        framing, self.framing = self.framing, Framing()
        return framing

    def drop_request(self) -> None:
        """What is here of it will not be completed."""
        self.take_request()
        self.received.clear()

    def shut(self) -> bool:
        """Tell the client that no more will come. It may still be sending."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self.socket.close()
