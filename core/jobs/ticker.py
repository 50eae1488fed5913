"""The ticker: any number of them run, one leads and asks for the jobs that are due or woken.

The leader holds a lease of three seconds by the database's clock. An advisory lock of the session
would not do: a frozen process, or a machine that fell off the network, keeps it for as long as its
connection lives. Each pass renews the lease and asks for work in one transaction, so a leader that
was overtaken asks for nothing. If a leader freezes inside its transaction, the server rolls it back
after two seconds.
"""

import logging
import threading
import time
from datetime import timedelta
from itertools import islice

from django.db import Error, connection, transaction

from core.jobs.jobs import LONGEST_PAUSE, MOST_AT_ONCE, ask_for_due_jobs
from core.leases import (
    WAKE_CHANNEL,
    HeldLease,
    LeaseLost,
    LeaseNotAcquired,
    acquire_lease,
    extend_lease,
    release_lease,
)
from core.sql import is_unavailable

logger = logging.getLogger(__name__)

LEASE = "ticker"
LEASE_TTL = timedelta(seconds=3)
SHORTEST_PAUSE = 0.005
PAUSE_WITHOUT_DATABASE = 0.5


class Ticker:
    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.lease: HeldLease | None = None
        self.woken: set[str] = set()
        self.pause = LONGEST_PAUSE
        self.last_took = 0.0

    def run(self) -> None:
        """Tick until told to stop, also across restarts of the database."""
        while not self.stopping.is_set():
            try:
                self._tick_while_connected()
            except Error as error:
                if not is_unavailable(error):
                    raise
                logger.warning("The ticker lost the database: %s", str(error).strip())
                connection.close()
                self.stopping.wait(PAUSE_WITHOUT_DATABASE)
        self._step_down()

    def tick(self) -> set[str]:
        """Run one pass; return the keys of the jobs that were asked for."""
        woken = set(islice(self.woken, MOST_AT_ONCE))
        self.woken -= woken
        before = self.lease
        try:
            with transaction.atomic():
                _be_rolled_back_if_frozen()
                if not self._lead():
                    self.pause = LONGEST_PAUSE
                    return set()
                asked, self.pause = ask_for_due_jobs(woken=woken)
                if self.woken:
                    self.pause = timedelta()
        except Error:
            # A lease that was rolled back is not ours: the next one to lead gets the same fence.
            self.lease = before
            self.woken |= woken
            raise
        return asked

    def _lead(self) -> bool:
        """Take or renew the lease; False while another ticker leads."""
        if self.lease is not None:
            try:
                extend_lease(self.lease)
            except LeaseLost:
                logger.info("This ticker no longer leads")
                self.lease = None
        else:
            try:
                self.lease = acquire_lease(LEASE, ttl=LEASE_TTL, tries=1)
                logger.info("This ticker leads")
            except LeaseNotAcquired:
                return False
        return self.lease is not None

    def _tick_while_connected(self) -> None:
        with connection.cursor() as cursor:
            # Behind PgBouncer in transaction mode no notice arrives: the next pass comes within a
            # second.
            cursor.execute(f"LISTEN {WAKE_CHANNEL}")
        while not self.stopping.is_set():
            began = time.monotonic()
            self.tick()
            self.last_took = min(time.monotonic() - began, LONGEST_PAUSE.total_seconds())
            self._wait_for_notice()

    def _wait_for_notice(self) -> None:
        """Return at the first notice, with all that have arrived by then."""
        # Notices that come together are served together. In a storm of them, each pass waits for
        # as long as the last one took: the ticker takes half a core at most.
        self.stopping.wait(max(SHORTEST_PAUSE, self.last_took))
        pause = self.pause.total_seconds()
        with connection.wrap_database_errors:
            for notice in connection.connection.notifies(timeout=pause, stop_after=1):
                self.woken.add(notice.payload)

    def _step_down(self) -> None:
        """Let the next ticker lead at once; without the database, the lease expires."""
        if self.lease is None:
            return
        try:
            release_lease(self.lease)
        except Error as error:
            if not is_unavailable(error):
                raise
            logger.warning("The ticker could not release its lease, which now expires")


def _be_rolled_back_if_frozen() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '2s'")
