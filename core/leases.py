"""Leases: the right to do work that outlives a transaction, such as one step with Coolify.

    with holding_lease("slot:7", ttl=...) as lease:
        coolify.stop(...)
        with lease.fenced():       # a transaction in which the lease is still ours
            ...record the result...

Leases expire by the database's clock. If a lease is not acquired, the work is not done:
LeaseNotAcquired. A process that was frozen for longer than its lease gets LeaseLost from `fenced()`
or `check()`.

The same rows are the jobs of core.jobs: which worker runs a key, whether a task for it is queued,
and when it is due again.
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
from django.db.models import Q
from django.db.models.functions import Coalesce, Now

from core.clock import uptime as _clock
from core.lease_waits import count_wait
from core.sql import fetch_one

logger = logging.getLogger(__name__)

# Committed changes that need work are announced here; see core.jobs.
WAKE_CHANNEL = "botpool_wake"


class Lease(models.Model):
    """The right to work on one thing, and the state of that work.

    The row stays when its lease ends, so `fence` only ever rises.
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
    refused_since = models.DateTimeField(
        null=True, help_text="Since when other processes have tried in vain to acquire it."
    )

    # As a job:
    due_at = models.DateTimeField(null=True, db_index=True, help_text="When it is to run next.")
    asked_at = models.DateTimeField(null=True, help_text="Since when a task for it is queued.")
    receipt = models.TextField(
        blank=True, default="", db_default="", help_text="The broker's handle of the task."
    )
    wanted = models.BooleanField(
        default=False, db_default=False, help_text="Woken while it ran: to run again."
    )
    finished_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Runs that failed since the last that did not."
    )
    duration = models.DurationField(null=True, help_text="Of its last run.")
    error = models.TextField(blank=True, default="", db_default="")

    class Meta:
        app_label = "slots"  # where its table was first made

    def __str__(self) -> str:
        return f"{self.key} (fence {self.fence})"


REFUSED_NOW = Coalesce("refused_since", Now())
IS_HELD = ~Q(holder="") & Q(expires_at__gt=Now())


class LeaseNotAcquired(Exception):
    """Another process holds the lease: the work was not done."""


class LeaseLost(Exception):
    """The lease expired and another process may have it: results must not be written."""


# A locked row is skipped: its lock belongs to a working holder, or to a frozen one whose
# transaction the server soon ends (IDLE_TRANSACTION_LIMIT). Not ORM: one trip takes or makes it.
_ACQUIRE = """
WITH taken AS (
    UPDATE slots_lease SET
        takeovers = takeovers + CASE WHEN holder <> '' THEN 1 ELSE 0 END,
        holder = %(holder)s,
        fence = fence + 1,
        acquired_at = clock_timestamp(),
        expires_at = clock_timestamp() + %(ttl)s,
        waits = waits + %(waited)s,
        refused_since = NULL,
        asked_at = CASE WHEN %(if_asked)s THEN NULL ELSE asked_at END,
        wanted = wanted AND NOT %(if_asked)s
    WHERE key = (
        SELECT key FROM slots_lease
        WHERE key = %(key)s AND (holder = '' OR expires_at <= clock_timestamp())
            AND (asked_at IS NOT NULL OR NOT %(if_asked)s)
        FOR UPDATE SKIP LOCKED
    )
    RETURNING fence
), made AS (
    INSERT INTO slots_lease (
        key, holder, fence, acquired_at, expires_at, waits, refusals, takeovers,
        receipt, wanted, error
    )
    SELECT
        %(key)s, %(holder)s, 1, clock_timestamp(), clock_timestamp() + %(ttl)s, %(waited)s, 0, 0,
        '', false, ''
    WHERE NOT EXISTS (SELECT FROM taken) AND NOT %(if_asked)s
    ON CONFLICT (key) DO NOTHING
    RETURNING fence
)
SELECT fence FROM taken UNION ALL SELECT fence FROM made
"""

# A job that was woken while the lease was held is due now. Not ORM: it needs the old value.
_RELEASE = """
UPDATE slots_lease AS lease SET
    holder = '',
    refused_since = NULL,
    wanted = false,
    receipt = CASE WHEN asked_at IS NULL THEN '' ELSE receipt END,
    due_at = CASE WHEN before.wanted THEN clock_timestamp() ELSE due_at END,
    expires_at = clock_timestamp(),
    longest_hold = greatest(longest_hold, clock_timestamp() - acquired_at)
FROM (SELECT key, wanted FROM slots_lease WHERE key = %(key)s FOR UPDATE) AS before
WHERE lease.key = before.key AND fence = %(fence)s
RETURNING CASE WHEN before.wanted THEN pg_notify(%(channel)s, lease.key)::text END
"""


@dataclass
class HeldLease:
    key: str
    fence: int
    ttl: timedelta
    valid_until: float  # by this host's _clock(); never later than expires_at
    _lost: threading.Event = field(default_factory=threading.Event)

    @property
    def row(self) -> models.QuerySet[Lease]:
        """The row while it is ours; empty once another holder has it."""
        return Lease.objects.filter(key=self.key, fence=self.fence).exclude(holder="")

    def check(self) -> None:
        """Raise LeaseLost if the lease is lost or has expired by this host's clock. It makes no
        query: call it before each request."""
        if self._lost.is_set() or _clock() >= self.valid_until:
            raise LeaseLost(f"The lease {self.key} was lost")

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """A transaction during which no other process can take the lease; LeaseLost if one has."""
        with transaction.atomic():
            if not self.row.filter(expires_at__gt=Now()).select_for_update().exists():
                raise LeaseLost(f"The lease {self.key} is no longer ours (fence {self.fence})")
            yield


def acquire_lease(
    key: str, *, ttl: timedelta, tries: int | None = None, if_asked: bool = False
) -> HeldLease:
    """Take the lease, with a few tries while another process holds it; else LeaseNotAcquired.

    `if_asked`: only if a run was asked for, which is then taken.
    """
    tries = 1 + settings.LOCK_RETRY_COUNT if tries is None else tries
    began = _clock()
    for attempt in range(tries):
        if attempt:
            time.sleep(_pause_before_next_try())
        asked = _clock()
        holder, waited = _me(), int(attempt > 0)
        row = fetch_one(
            _ACQUIRE,
            {"key": key, "holder": holder, "ttl": ttl, "waited": waited, "if_asked": if_asked},
        )
        if row is not None:
            if attempt:
                count_wait(key, _clock() - began)
            logger.debug("Acquired lease %s (fence %s)", key, row[0])
            valid_until = asked + ttl.total_seconds()
            return HeldLease(key=key, fence=row[0], ttl=ttl, valid_until=valid_until)
    if tries > 1:
        count_wait(key, _clock() - began)
    raise LeaseNotAcquired(f"Another process holds the lease {key}")


def extend_lease(lease: HeldLease, ttl: timedelta | None = None) -> None:
    ttl, asked = ttl or lease.ttl, _clock()
    if not lease.row.update(expires_at=Now() + ttl):
        lease._lost.set()
        raise LeaseLost(f"The lease {lease.key} is no longer ours (fence {lease.fence})")
    lease.valid_until = asked + ttl.total_seconds()
    milliseconds = ttl / timedelta(milliseconds=1)
    logger.debug("Extended lease %s for %.0f ms (fence %s)", lease.key, milliseconds, lease.fence)


def release_lease(lease: HeldLease) -> None:
    """Give the lease back. One that was lost is left alone."""
    released = {"key": lease.key, "fence": lease.fence, "channel": WAKE_CHANNEL}
    if fetch_one(_RELEASE, released) is None:
        logger.warning("Lease %s was lost before its release (fence %s)", lease.key, lease.fence)
    else:
        logger.debug("Released lease %s (fence %s)", lease.key, lease.fence)


def break_lease(key: str) -> bool:
    """For operators: the holder gets LeaseLost, and another process can acquire it at once."""
    held = Lease.objects.filter(key=key).exclude(holder="")
    return bool(held.update(holder="", fence=models.F("fence") + 1, expires_at=Now()))


@contextmanager
def holding_lease(key: str, *, ttl: timedelta, tries: int | None = None) -> Iterator[HeldLease]:
    """Hold the lease during the block, and extend it for as long as the block takes."""
    try:
        lease = acquire_lease(key, ttl=ttl, tries=tries)
    except LeaseNotAcquired:
        _count_refusal(key)
        logger.info("Lease %s not acquired: the work is skipped", key)
        raise
    with extended(lease):
        yield lease


@contextmanager
def extended(lease: HeldLease) -> Iterator[None]:
    """Extend the lease while the block runs, then release it."""
    done = threading.Event()
    context = copy_context()  # the keeper logs under the same correlation id
    keeper = threading.Thread(target=context.run, args=(_keep, lease, done), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        release_lease(lease)


def _keep(lease: HeldLease, done: threading.Event) -> None:
    """Extend the lease on a connection of its own, which is opened only if the work takes longer
    than half the lease."""
    pause = lease.ttl.total_seconds() / 2
    try:
        while not done.wait(pause):
            try:
                extend_lease(lease)
                pause = lease.ttl.total_seconds() / 2
            except Error as error:  # without the database the lease expires
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


def _count_refusal(key: str) -> None:
    """Not worth waiting for: a refusal is not counted while the row is locked."""
    with transaction.atomic():
        row = Lease.objects.select_for_update(skip_locked=True).filter(key=key).first()
        if row is not None:
            Lease.objects.filter(key=key).update(
                refusals=models.F("refusals") + 1, refused_since=REFUSED_NOW
            )


def _me() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"
