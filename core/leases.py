"""Leases: for work that outlives a transaction, such as talking to Coolify about a slot.

    with holding_lease("slot:7", ttl=...) as lease:
        coolify.stop(...)
        with lease.fenced():       # a transaction in which the lease is still ours
            ...record the result...

Time is the database's. A lease that is not acquired is no reason to go on without it: the work
is not done, and `LeaseNotAcquired` says so. Who loses a lease, because its process was frozen
for longer than the lease lasts, finds out at `fenced()` or `check()`: LeaseLost.
"""

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import Error, connection, models, transaction
from django.db.models.functions import Now

from core.sql import fetch_one

logger = logging.getLogger(__name__)


class Lease(models.Model):
    """The right to talk to Coolify about something for a while; see core.leases.

    A row stays when its lease ends, so that `fence` only ever rises and its story can be read.
    """

    key = models.CharField(max_length=150, primary_key=True)
    holder = models.CharField(max_length=200, blank=True, default="")
    fence = models.BigIntegerField(default=0)
    acquired_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(db_default=Now())

    waits = models.PositiveIntegerField(default=0, help_text="Acquired only after waiting.")
    refusals = models.PositiveIntegerField(default=0, help_text="Not acquired after all tries.")
    takeovers = models.PositiveIntegerField(
        default=0, help_text="Taken from a holder that was lost."
    )
    longest_hold = models.DurationField(null=True)

    class Meta:
        app_label = "slots"  # where its table was first made

    def __str__(self) -> str:
        return f"{self.key} (fence {self.fence})"


class LeaseNotAcquired(Exception):
    """Somebody else holds the lease: the work was not done."""


class LeaseLost(Exception):
    """The lease ran out and is somebody else's: what was under way must not be written."""


# Nobody waits for the row: whoever holds it locked is at work under the lease, or was frozen there,
# and then the server ends its transaction soon (IDLE_TRANSACTION_LIMIT).
_ACQUIRE = """
WITH taken AS (
    UPDATE slots_lease SET
        takeovers = takeovers + CASE WHEN holder <> '' THEN 1 ELSE 0 END,
        holder = %(holder)s,
        fence = fence + 1,
        acquired_at = clock_timestamp(),
        expires_at = clock_timestamp() + %(ttl)s,
        waits = waits + %(waited)s
    WHERE key = (
        SELECT key FROM slots_lease
        WHERE key = %(key)s AND (holder = '' OR expires_at <= clock_timestamp())
        FOR UPDATE SKIP LOCKED
    )
    RETURNING fence, takeovers
), made AS (
    INSERT INTO slots_lease (
        key, holder, fence, acquired_at, expires_at, waits, refusals, takeovers
    )
    SELECT
        %(key)s, %(holder)s, 1, clock_timestamp(), clock_timestamp() + %(ttl)s, %(waited)s, 0, 0
    WHERE NOT EXISTS (SELECT FROM taken)
    ON CONFLICT (key) DO NOTHING
    RETURNING fence, takeovers
)
SELECT fence, takeovers FROM taken UNION ALL SELECT fence, takeovers FROM made
"""

_EXTEND = """
UPDATE slots_lease SET expires_at = clock_timestamp() + %(ttl)s
WHERE key = %(key)s AND fence = %(fence)s AND holder <> ''
RETURNING key
"""

_RELEASE = """
UPDATE slots_lease SET
    holder = '',
    expires_at = clock_timestamp(),
    longest_hold = greatest(longest_hold, clock_timestamp() - acquired_at)
WHERE key = %(key)s AND fence = %(fence)s
RETURNING key
"""

_HOLD_ROW = """
SELECT key FROM slots_lease
WHERE key = %(key)s AND fence = %(fence)s AND holder <> '' AND expires_at > clock_timestamp()
FOR UPDATE
"""


@dataclass
class HeldLease:
    key: str
    fence: int
    ttl: timedelta
    valid_until: float  # by this host's clock since its start: safely before the database's end
    _lost: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise LeaseLost if the lease is lost, or has run out here. Free: for use before each
        call. A process that was frozen finds out by the clock, before anybody tells it."""
        if self._lost.is_set() or _clock() >= self.valid_until:
            raise LeaseLost(f"The lease {self.key} was lost")

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """A transaction during which nobody can take the lease; LeaseLost if somebody has."""
        with transaction.atomic():
            if fetch_one(_HOLD_ROW, {"key": self.key, "fence": self.fence}) is None:
                raise LeaseLost(f"The lease {self.key} is not ours any more (fence {self.fence})")
            yield


def acquire_lease(key: str, *, ttl: timedelta, tries: int | None = None) -> HeldLease:
    """Take the lease, trying again a few times while another holds it, else LeaseNotAcquired."""
    tries = 1 + settings.LOCK_RETRY_COUNT if tries is None else tries
    for attempt in range(tries):
        if attempt:
            time.sleep(_pause_before_next_try())
        asked = _clock()
        row = fetch_one(
            _ACQUIRE, {"key": key, "holder": _me(), "ttl": ttl, "waited": int(attempt > 0)}
        )
        if row is not None:
            logger.debug("Acquired lease %s (fence %s)", key, row[0])
            valid_until = asked + ttl.total_seconds()
            return HeldLease(key=key, fence=row[0], ttl=ttl, valid_until=valid_until)
    _count_refusal(key)
    logger.info("Lease %s not acquired after %s tries: the work is skipped", key, tries)
    raise LeaseNotAcquired(f"Somebody else holds the lease {key}")


def extend_lease(lease: HeldLease, ttl: timedelta | None = None) -> None:
    ttl, asked = ttl or lease.ttl, _clock()
    if fetch_one(_EXTEND, {"key": lease.key, "fence": lease.fence, "ttl": ttl}) is None:
        lease._lost.set()
        raise LeaseLost(f"The lease {lease.key} is not ours any more (fence {lease.fence})")
    lease.valid_until = asked + ttl.total_seconds()


def release_lease(lease: HeldLease) -> None:
    """Give it back. One that was lost meanwhile is not touched."""
    if fetch_one(_RELEASE, {"key": lease.key, "fence": lease.fence}) is None:
        logger.warning("Lease %s was lost before its release (fence %s)", lease.key, lease.fence)


def break_lease(key: str) -> bool:
    """An operator's way out: the holder finds it lost, the next one gets it at once."""
    sql = "UPDATE slots_lease SET holder = '', fence = fence + 1, expires_at = clock_timestamp()"
    return (
        fetch_one(f"{sql} WHERE key = %(key)s AND holder <> '' RETURNING key", {"key": key})
        is not None
    )


@contextmanager
def holding_lease(key: str, *, ttl: timedelta, tries: int | None = None) -> Iterator[HeldLease]:
    """Hold the lease during the block, extended for as long as the block takes."""
    lease = acquire_lease(key, ttl=ttl, tries=tries)
    done = threading.Event()
    its_work = copy_context()  # so that the log of the keeper says whose lease it is
    keeper = threading.Thread(target=its_work.run, args=(_keep, lease, done), daemon=True)
    keeper.start()
    try:
        yield lease
    finally:
        done.set()
        release_lease(lease)


def _keep(lease: HeldLease, done: threading.Event) -> None:
    """Extend the lease while its work goes on. On a connection of its own, opened only if the
    work takes longer than half the lease, which is rare."""
    pause = lease.ttl.total_seconds() / 2
    try:
        while not done.wait(pause):
            try:
                extend_lease(lease)
                pause = lease.ttl.total_seconds() / 2
            except Error as error:  # the database is away: the lease runs out unless it comes back
                logger.warning("Lease %s could not be extended: %s", lease.key, error)
                connection.close()
                pause = lease.ttl.total_seconds() / 10
    except LeaseLost:
        logger.warning("Lease %s was lost while its work went on", lease.key)
    finally:
        connection.close()


def _pause_before_next_try() -> float:
    jitter = random.uniform(-1, 1) * settings.LOCK_RETRY_JITTER.total_seconds()  # noqa: S311
    return max(0.0, settings.LOCK_RETRY_DELAY.total_seconds() + jitter)


_COUNT_REFUSAL = """
UPDATE slots_lease SET refusals = refusals + 1
WHERE key = (SELECT key FROM slots_lease WHERE key = %(key)s FOR UPDATE SKIP LOCKED)
RETURNING key
"""


def _count_refusal(key: str) -> None:
    """Not worth waiting for: one that finds the row locked is not counted."""
    fetch_one(_COUNT_REFUSAL, {"key": key})


def _clock() -> float:
    """Seconds since this host started, those in which it slept included where that is known."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _me() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"
