"""Jobs: work under one key, done by one worker at a time.

A key is the name of periodic work, or a kind and an id: `slot:7`. Its row (core.leases.Lease)
says when it is due, whether a task for it is queued, and which worker runs it. A task only says
"run this key": it can be lost, doubled or late without harm.

    wake("slot:7") ─► ticker: ask ─► task ─► worker: run ─► handler ─► due again, or done
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, reduce
from operator import or_

from django.conf import settings
from django.db import transaction
from django.db.models import BooleanField, DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils.module_loading import import_string
from django_q.tasks import async_task

from core.jobs.broker import Envelope, announce_tasks, is_waiting, withdraw
from core.leases import (
    IS_HELD,
    REFUSED_NOW,
    WAKE_CHANNEL,
    HeldLease,
    Lease,
    LeaseNotAcquired,
    acquire_lease,
    extended,
)
from core.prepared import update_rows
from core.sql import ROWS_AT_ONCE, leave_interrupted_statement, notify

logger = logging.getLogger(__name__)

WORKER_HEARTBEAT = "worker heartbeat"
LOST_AFTER = timedelta(seconds=10)
COUNTS_AS_LOST_AT = Now() + LOST_AFTER
ASKED_NOW = Coalesce("asked_at", Now())
# After a failure: the first pause, which doubles with each further failure, and the longest.
AFTER_A_FAILURE = timedelta(seconds=5), timedelta(minutes=1)
LONGEST_PAUSE = timedelta(seconds=1)
# Jobs that one pass asks for: it takes half a second, and nothing else is asked for meanwhile.
MOST_AT_ONCE = 1_000


@dataclass(frozen=True, kw_only=True)
class Work:
    """Periodic work. Its function takes no arguments and is safe to run twice."""

    name: str
    function: str  # dotted
    interval: str  # the name of a setting, such as RECONCILE_INTERVAL

    @property
    def pause(self) -> timedelta:
        pause: timedelta = getattr(settings, self.interval)
        return pause


def works() -> tuple[Work, ...]:
    """All periodic work, as the project lists it."""
    listed: tuple[Work, ...] = import_string(settings.PERIODIC_WORK)
    return listed


def show_that_workers_work() -> None:
    """The workers' heartbeat: all it has to do is run."""


# --- Waking -----------------------------------------------------------------------------------


def wake(keys: Iterable[str]) -> None:
    """Run these jobs soon, once the caller's transaction commits."""
    if keys := list(keys):
        notify(WAKE_CHANNEL, keys)


# --- Asking for a run (the ticker) ------------------------------------------------------------


def ask_for_due_jobs(*, woken: Iterable[str] = ()) -> tuple[set[str], timedelta]:
    """Queue a task for each job that is due or woken, unless it has one or runs.

    Returns the keys that were asked for, and how long until the next job is due.
    """
    _add_missing([work.name for work in works()], due_at=Now())
    due = _waiting().filter(due_at__lte=Now()).order_by("due_at").values_list("key", flat=True)
    asked = ask({*due[:MOST_AT_ONCE], *woken})
    return asked, _until_next()


@transaction.atomic(savepoint=False)
def ask(keys: Iterable[str]) -> set[str]:
    """Queue their tasks. A job that is running runs again afterwards: it may have missed the change
    that it was woken for."""
    keys = sorted(key for key in set(keys) if _is_known(key))
    rows = _lock_to_ask(keys)
    if len(rows) < len(keys) and _add_missing(keys, due_at=None):
        rows = _lock_to_ask(keys)
    running = [row.key for row in rows if getattr(row, "runs", False)]
    if running:
        Lease.objects.filter(key__in=running).update(wanted=True, refused_since=REFUSED_NOW)
    asked = {row.key for row in rows if row.key not in running and _ask(row)}
    if asked:
        announce_tasks()
    if len(rows) < len(keys):
        found = {row.key for row in rows}
        # Not waited for: the lock may be a frozen worker's. Wake the job again instead.
        wake(set(_to_ask(keys).values_list("key", flat=True)) - found)
    return asked


def _lock_to_ask(keys: list[str]) -> list[Lease]:
    return list(_to_ask(keys).select_for_update(skip_locked=True)) if keys else []


def _add_missing(keys: list[str], *, due_at: Now | None) -> bool:
    known = set(Lease.objects.filter(key__in=keys).values_list("key", flat=True))
    missing = [Lease(key=key, due_at=due_at) for key in keys if key not in known]
    if missing:
        Lease.objects.bulk_create(missing, ignore_conflicts=True, batch_size=ROWS_AT_ONCE)
    return bool(missing)


def _to_ask(keys: list[str]) -> QuerySet[Lease]:
    """Jobs that run and are not yet marked to run again, and jobs without a task. While a task is
    queued, `due_at` is when to check that it was not lost."""
    has_task = Q(asked_at__isnull=False, due_at__gt=Now())
    needed = (IS_HELD & Q(wanted=False)) | (~IS_HELD & ~has_task)
    runs = ExpressionWrapper(IS_HELD, output_field=BooleanField())
    return Lease.objects.filter(needed, key__in=keys).annotate(runs=runs).order_by("key")


def _ask(row: Lease) -> bool:
    """Queue its task; False if one is waiting. A task that a worker took and lost is replaced."""
    if row.asked_at is not None:
        if is_waiting(row.receipt):
            update_rows(Lease, {"key": row.key}, due_at=COUNTS_AS_LOST_AT)
            return False
        logger.warning("The task for '%s' was lost and is queued again", row.key)
    withdraw(row.receipt)  # left over from a run whose worker was killed
    envelope = Envelope(lane=_lane(row.key))
    async_task("core.jobs.jobs.run", row.key, task_name=row.key, broker=envelope)
    update_rows(
        Lease,
        {"key": row.key},
        asked_at=ASKED_NOW,
        due_at=COUNTS_AS_LOST_AT,
        receipt=envelope.receipt,
    )
    return True


def _waiting() -> QuerySet[Lease]:
    """Jobs that are not running. Rows of work that this version does not know are left alone."""
    kinds = (Q(key__startswith=f"{kind}:") for kind in settings.JOB_HANDLERS)
    known = reduce(or_, kinds, Q(key__in=[work.name for work in works()]))
    return Lease.objects.filter(known, ~IS_HELD, due_at__isnull=False)


def _until_next() -> timedelta:
    wait = ExpressionWrapper(F("due_at") - Now(), output_field=DurationField())
    waits = _waiting().annotate(wait=wait).order_by("due_at").values_list("wait", flat=True)
    first = waits.first()
    return LONGEST_PAUSE if first is None else min(max(first, timedelta()), LONGEST_PAUSE)


# --- Running it (a worker) --------------------------------------------------------------------


def run(key: str) -> bool:
    """Run the job if a run was asked for and no worker is running it; return whether it ran."""
    lease = _take(key) if _is_known(key) else None
    if lease is None:
        return False
    begin = time.monotonic()
    with extended(lease):
        try:
            again = _handler(key)(lease)
        except BaseException as error:  # a task's timeout is not an Exception
            message = f"{type(error).__name__}: {error}"
            logger.exception("'%s' failed: %s", key, message)
            leave_interrupted_statement()
            lease.row.update(
                failed_at=Now(),
                failures=F("failures") + 1,
                error=message,
                duration=timedelta(seconds=time.monotonic() - begin),
                due_at=F("acquired_at") + (_pause(key) or _after_a_failure(lease)),
            )
            raise
        pause = _pause(key)
        lease.row.update(
            finished_at=Now(),
            failures=0,
            error="",
            duration=timedelta(seconds=time.monotonic() - begin),
            due_at=_due(again, pause),
        )
    return True


def _take(key: str) -> HeldLease | None:
    """Take the run that was asked for. If another process holds the lease, the job is marked to
    run once that process is done."""
    for _ in range(2):  # twice: at the first try a release may be in progress
        try:
            return acquire_lease(key, ttl=settings.LOCK_TTL, tries=1, if_asked=True)
        except LeaseNotAcquired:
            held = Lease.objects.filter(IS_HELD, key=key)
            if held.update(wanted=True, asked_at=None, refused_since=REFUSED_NOW):
                break
    return None


def _after_a_failure(lease: HeldLease) -> timedelta:
    """A job that fails each time costs less and less."""
    shortest, longest = AFTER_A_FAILURE
    earlier = lease.row.values_list("failures", flat=True).first() or 0
    return min(shortest * 2 ** min(earlier, 10), longest)


def _due(again: timedelta | None, pause: timedelta | None) -> object:
    """Periodic work is due one interval after its start, other jobs when their handler said."""
    if pause is not None:
        return F("acquired_at") + pause
    return None if again is None else Now() + again


# --- What a key stands for --------------------------------------------------------------------


def load_functions() -> None:
    """Import the modules of all jobs. Called before the workers are forked, so that they share
    them: else each worker imports them again, and so does each one that replaces it."""
    for function in (*(work.function for work in works()), *settings.JOB_HANDLERS.values()):
        import_string(function)


def _work(key: str) -> Work | None:
    return next((work for work in works() if work.name == key), None)


def _pause(key: str) -> timedelta | None:
    work = _work(key)
    return work.pause if work else None


def _lane(key: str) -> str:
    return key.partition(":")[0] if _work(key) is None else ""


def _is_known(key: str) -> bool:
    kind, _, number = key.partition(":")
    return _work(key) is not None or (kind in settings.JOB_HANDLERS and number.isdecimal())


def _handler(key: str) -> Callable[[HeldLease], timedelta | None]:
    """What to call. The handler of a kind also gets the id, and returns when to run again."""
    work = _work(key)
    if work is not None:
        return partial(_run_periodic, import_string(work.function))
    kind, _, number = key.partition(":")
    return partial(import_string(settings.JOB_HANDLERS[kind]), int(number))


def _run_periodic(function: Callable[[], object], lease: HeldLease) -> None:
    function()
