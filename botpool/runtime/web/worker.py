"""A gunicorn worker that gives a thread only to a request that has arrived as a whole.

One loop receives requests and sends answers, for all clients at once; threads run the application.
A slow client therefore costs a file and some memory, but no thread and no database connection.
"""

import logging
import selectors
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from botpool.runtime.web.configuration import MOST_BYTES_HELD
from botpool.runtime.web.connection import Connection
from botpool.runtime.web.parsing import parsed
from botpool.runtime.web.refusal import Refused
from core import environment
from core.correlation import correlated

# For a whole request, and for a whole answer.
REQUEST_SECONDS = environment.number("WEB_REQUEST_SECONDS", 20, low=1, high=600)
FAREWELL_SECONDS = 2.0
# One that is being answered, and one that waits.
REQUESTS_A_THREAD = 2
BUSY_SECONDS = 1.0
LAST_REQUESTS_SECONDS = 1.0
# Says that the process is alive, also while all of its threads wait for a database that hangs.
PROBE = b"/healthz"
TOO_SLOW = Refused(
    HTTPStatus.REQUEST_TIMEOUT, f"The request did not arrive within {REQUEST_SECONDS} seconds."
)
TOO_BUSY = Refused(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "Too many large requests are waiting. Try again in a moment.",
    retry_after=2,
)

logger = logging.getLogger(__name__)


class PatientWorker(ThreadWorker):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.waiting: dict[Connection, None] = {}  # for their clients, the longest first
        # Complete requests: with a thread, or waiting for one.
        self.working: dict[Connection, Future[bool]] = {}
        self.held = 0  # bytes of both
        self.most_held = MOST_BYTES_HELD
        self.next_check = 0.0
        self.free_at = 0.0  # when a thread was last free
        self.for_probes = ThreadPoolExecutor(max_workers=1)
        self.keeps_open = True  # a connection whose client was not told that it closes

    # --- The loop ----------------------------------------------------------------------------

    def run(self) -> None:
        wakes = self.method_queue.fileno()
        self.poller.register(wakes, selectors.EVENT_READ, self.method_queue.run_callbacks)
        while self.alive and self.is_parent_alive():
            self.set_accept_enabled(self._accepts())
            self._turn()
        self.set_accept_enabled(False)
        began = time.monotonic()
        # The next request of a busy client is answered, with the word that the connection closes.
        self._go_on_until(began + min(LAST_REQUESTS_SECONDS, self.cfg.graceful_timeout))
        self.keeps_open = False
        self._close_idle()
        self._go_on_until(began + self.cfg.graceful_timeout)
        self.tpool.shutdown(wait=False)
        self.for_probes.shutdown(wait=False)
        for listener in self.sockets:
            listener.close()

    def _go_on_until(self, deadline: float) -> None:
        while (self.working or self.waiting) and time.monotonic() < deadline:
            self._turn()

    def _accepts(self) -> bool:
        """While requests wait for a thread here, new clients are left to the other processes. But
        not for long: those may be as busy, and one of the clients may be a probe."""
        now = time.monotonic()
        if len(self.working) < self.cfg.threads * REQUESTS_A_THREAD:
            self.free_at = now
        return now == self.free_at or now > self.free_at + BUSY_SECONDS

    def _turn(self) -> None:
        self.notify()
        self.wait_for_and_dispatch_events(timeout=1.0 if self.alive else 0.1)
        now = time.monotonic()
        if now >= self.next_check:
            self.next_check = now + 1.0
            for connection in [each for each in self.waiting if each.deadline < now]:
                self._give_up(connection)

    def _give_up(self, connection: Connection) -> None:
        """Close it. The client of an unfinished request is told why."""
        if connection.closes or connection.sock.unsent or not connection.has_begun:
            self._close(connection)
            return
        self._stop_waiting(connection)
        self._turn_away(connection, TOO_SLOW)

    def _turn_away(self, connection: Connection, refusal: Refused) -> None:
        connection.drop_request()
        with suppress(OSError):  # sending the answer finds out, too
            _refuse(connection, refusal)
        self._answer(connection, closes=True)

    def _close_idle(self) -> None:
        """Before the end: connections on which no request has begun."""
        for connection in [each for each in self.waiting if not each.held]:
            self._close(connection)

    # --- Receiving ---------------------------------------------------------------------------

    def accept(self, listener: Any) -> None:
        try:
            sock, client = listener.accept()
        except OSError:  # the other process was first, or the client has gone
            return
        self._make_room()
        self._free_memory()
        connection = Connection(sock, client, listener.getsockname())
        self._wait_for_request(connection, seconds=REQUEST_SECONDS)

    def _make_room(self) -> None:
        """Close the connections that have waited longest, if there are too many."""
        while self.waiting and len(self.waiting) + len(self.working) >= self.worker_connections:
            self._close(next(iter(self.waiting)))

    def _free_memory(self) -> None:
        """Give up the largest connections, if they hold too much: an old one may hold nothing."""
        if self.held <= self.most_held:
            return
        everyone = [*self.waiting, *self.working]
        for connection in sorted(everyone, key=lambda each: each.counted, reverse=True):
            if self.held <= self.most_held or not connection.counted:
                return
            if connection in self.waiting:
                self._close(connection)
            elif self.working[connection].cancel():  # no thread has begun it
                connection.drop_request()  # `_finish` tells the client
                self._count(connection)

    def _wait_for_request(self, connection: Connection, *, seconds: float) -> None:
        self._wait(connection, selectors.EVENT_READ, self._receive, seconds=seconds)

    def _receive(self, connection: Connection) -> None:
        begins = not connection.has_begun
        if not connection.receive():
            self._close(connection)
            return
        if begins:
            connection.deadline = time.monotonic() + REQUEST_SECONDS
        self._serve_if_complete(connection)

    def _serve_if_complete(self, connection: Connection) -> None:
        if not connection.framing.is_complete(connection.received):
            connection.ask_for_body()
            self._count(connection)
            self._free_memory()
            return
        self._stop_waiting(connection)
        self._count(connection)
        threads = self.for_probes if connection.framing.path == PROBE else self.tpool
        future = threads.submit(self.handle, connection)
        self.working[connection] = future
        future.add_done_callback(partial(self.method_queue.defer, self._finish, connection))
        self._free_memory()

    # --- Answering, in a thread --------------------------------------------------------------

    def handle(self, connection: Connection) -> bool:
        """Whether the connection can serve another request."""
        framing = connection.take_request()
        if framing.refusal:
            return _refuse(connection, framing.refusal)
        try:
            request = parsed(self.cfg, framing, connection.client)
            return bool(self.handle_request(request, connection))
        except (StopIteration, OSError):
            return False
        except Refused as refusal:
            return _refuse(connection, refusal)
        except Exception:
            return _fail(connection)

    # --- Sending -----------------------------------------------------------------------------

    def _finish(self, connection: Connection, future: "Future[bool]") -> None:
        del self.working[connection]
        self._discount(connection)
        if future.cancelled():
            self._turn_away(connection, TOO_BUSY)
            return
        failed = future.exception() is not None
        self._answer(connection, closes=failed or not future.result() or not self.keeps_open)

    def _answer(self, connection: Connection, *, closes: bool) -> None:
        connection.closes = closes
        self._wait(connection, selectors.EVENT_WRITE, self._send, seconds=REQUEST_SECONDS)
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        try:
            if not connection.sock.flush():
                return
        except OSError:
            self._close(connection)
            return
        self._stop_waiting(connection)
        if not connection.closes:
            # The next request, or a part of it, may have arrived with the one before.
            seconds = REQUEST_SECONDS if connection.has_begun else self.cfg.keepalive
            self._wait_for_request(connection, seconds=seconds)
            self._serve_if_complete(connection)
        elif connection.shut():
            self._wait(connection, selectors.EVENT_READ, self._see_off, seconds=FAREWELL_SECONDS)
        else:
            connection.close()

    def _see_off(self, connection: Connection) -> None:
        """Read what the client still sends: closing now could cost it the answer."""
        connection.received.clear()
        if not connection.receive():
            self._close(connection)

    # --- Connections that wait for their clients ---------------------------------------------

    def _wait(self, connection: Connection, event: int, then: Any, *, seconds: float) -> None:
        connection.deadline = time.monotonic() + seconds
        self.waiting[connection] = None
        self._count(connection)
        self.poller.register(connection.socket, event, lambda _: self._go_on(connection, then))

    def _go_on(self, connection: Connection, then: Any) -> None:
        if connection in self.waiting:  # else it was closed in this turn, to make room
            then(connection)

    def _stop_waiting(self, connection: Connection) -> None:
        del self.waiting[connection]
        self._discount(connection)
        self.poller.unregister(connection.socket)

    def _count(self, connection: Connection) -> None:
        self.held += connection.held - connection.counted
        connection.counted = connection.held

    def _discount(self, connection: Connection) -> None:
        self.held -= connection.counted
        connection.counted = 0

    def _close(self, connection: Connection) -> None:
        self._stop_waiting(connection)
        connection.close()


def _refuse(connection: Connection, refusal: Refused) -> bool:
    """Answer without asking the application."""
    with correlated(uuid.uuid4().hex):
        words = "Refused a request from %s with %d: %s"
        logger.warning(words, connection.client, refusal.status, refusal.detail)
        connection.sock.sendall(refusal.answer())
    return False


def _fail(connection: Connection) -> bool:
    with correlated(uuid.uuid4().hex):
        logger.exception("Error handling a request")
        internal = Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error.")
        connection.sock.sendall(internal.answer())
    return False
