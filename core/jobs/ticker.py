"""The ticker: any number of them run, one leads and asks for the periodic work that is due.

The leader is whoever holds the lease, a single row, and was seen within the last three seconds of
the database's clock. A row and not a session's advisory lock, because a session lock is kept by a
process that is frozen, or whose machine fell off the network, for as long as its connection lives.
Each pass renews the lease and asks for work in one transaction: an overtaken leader that wakes up
finds another name in the row and does nothing, and one that was frozen inside its transaction has
it rolled back by the server after two seconds.
"""

import logging
import os
import secrets
import socket
import threading
from datetime import timedelta

from django.db import InterfaceError, OperationalError, connection, models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from core.jobs.periodic import LONGEST_PAUSE, ask_for_due_work

logger = logging.getLogger(__name__)

CHANNEL = "botpool_tick"
LEASE_TTL = timedelta(seconds=3)
SHORTEST_PAUSE = 0.05
PAUSE_WITHOUT_DATABASE = 0.5


class TickerLease(models.Model):
    """Which ticker leads: the one named here, as long as it has been seen lately."""

    id = models.BooleanField(primary_key=True, default=True)
    holder = models.CharField(max_length=200, blank=True)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "botpool"  # where its table was first made
        constraints = [
            models.CheckConstraint(condition=models.Q(id=True), name="there_is_one_ticker_lease")
        ]

    def __str__(self) -> str:
        return self.holder or "nobody"


def wake_ticker(name: str = "") -> None:
    """Make the leader look now instead of within a second, and run the named work if not ''."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, name])


class Ticker:
    def __init__(self) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.stopping = threading.Event()
        self.leads = False
        self.wanted: set[str] = set()
        self.pause = LONGEST_PAUSE

    def run(self) -> None:
        """Tick until told to stop, through restarts of the database."""
        while not self.stopping.is_set():
            try:
                self._tick_while_connected()
            except (OperationalError, InterfaceError) as error:
                self._note_leading(False)
                logger.warning("The ticker lost the database: %s", str(error).strip())
                connection.close()
                self.stopping.wait(PAUSE_WITHOUT_DATABASE)
        self._step_down()

    def tick(self) -> set[str]:
        """One pass: the names of the work that was asked for."""
        with transaction.atomic():
            _be_rolled_back_if_frozen()
            self._note_leading(hold_lease(self.holder))
            asked, self.pause = self._ask() if self.leads else (set(), LONGEST_PAUSE)
        self.wanted -= asked
        return asked

    def _ask(self) -> tuple[set[str], timedelta]:
        return ask_for_due_work(wanted=frozenset(self.wanted))

    def _tick_while_connected(self) -> None:
        with connection.cursor() as cursor:
            # Behind PgBouncer in transaction mode no notice comes: then the next pass is a second
            # later at most.
            cursor.execute(f"LISTEN {CHANNEL}")
        while not self.stopping.is_set():
            self.tick()
            self._wait_for_notice()

    def _wait_for_notice(self) -> None:
        self.stopping.wait(SHORTEST_PAUSE)  # a storm of notices costs at most 20 passes a second
        pause = max(self.pause.total_seconds() - SHORTEST_PAUSE, 0.0)
        with connection.wrap_database_errors:
            for notice in connection.connection.notifies(timeout=pause, stop_after=1):
                self.wanted |= {notice.payload} - {""}

    def _note_leading(self, leads: bool) -> None:
        if leads != self.leads:
            logger.info("Ticker %s %s", self.holder, "leads" if leads else "does not lead")
        self.leads = leads

    def _step_down(self) -> None:
        """Let the next ticker lead at once; if the database is away, the lease runs out."""
        try:
            TickerLease.objects.filter(holder=self.holder).update(seen_at=None)
        except (OperationalError, InterfaceError):
            logger.warning("The ticker could not give up its lease, which now runs out")


def _be_rolled_back_if_frozen() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '2s'")


def hold_lease(holder: str) -> bool:
    """Take or renew the lease; False while another ticker leads."""
    lease, _ = TickerLease.objects.get_or_create(pk=True)
    if lease.holder != holder and _is_being_written():
        return False
    free = Q(holder=holder) | Q(seen_at__isnull=True) | Q(seen_at__lt=Now() - LEASE_TTL)
    return bool(TickerLease.objects.filter(free).update(holder=holder, seen_at=Now()))


def _is_being_written() -> bool:
    """Whether the leader is in the middle of a pass, for which a challenger need not wait."""
    return not TickerLease.objects.select_for_update(skip_locked=True).exists()
