"""Periodic work: the list of it, how a run is asked for, and how a worker runs it.

A run is asked for once: while one waits or runs, no further task is sent, so that slow or absent
workers find one task of each kind and not a pile. The task itself carries no meaning but "look
whether a run is asked for": a task too many does nothing.
"""

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import Error, connection, models
from django.db.models import BooleanField, DurationField, ExpressionWrapper, F, Q
from django.db.models.functions import Coalesce, Now
from django.utils.module_loading import import_string
from django_q.brokers import Broker, get_broker
from django_q.models import OrmQ
from django_q.tasks import async_task

logger = logging.getLogger(__name__)

WORKER_HEARTBEAT = "worker heartbeat"
LOST_AFTER = timedelta(seconds=10)
# A run whose worker shows no sign of life for so long is given up for dead.
RUN_LEASE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(seconds=1)


class PeriodicWork(models.Model):
    """What is known of one kind of periodic work. All times are the database's."""

    name = models.CharField(max_length=60, primary_key=True)

    nudged_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="Since when a run is asked for.")
    look_again_at = models.DateTimeField(null=True, help_text="When to ask if its task was lost.")
    receipt = models.TextField(blank=True, help_text="The broker's handle of its task.")

    started_at = models.DateTimeField(null=True)
    running_until = models.DateTimeField(null=True, help_text="When a run counts as dead.")
    running_by = models.CharField(max_length=32, blank=True)

    finished_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    duration = models.DurationField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        app_label = "botpool"  # where its table was first made
        verbose_name_plural = "periodic work"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class Work:
    name: str
    function: str  # dotted, called without arguments in a worker, safe to run twice
    interval: str  # the name of the setting; POLL_INTERVAL and the like

    @property
    def pause(self) -> timedelta:
        pause: timedelta = getattr(settings, self.interval)
        return pause


def works() -> tuple[Work, ...]:
    """All periodic work there is, from where the project lists it."""
    listed: tuple[Work, ...] = import_string(settings.PERIODIC_WORK)
    return listed


def show_that_workers_work() -> None:
    """The heartbeat: that it ran at all is what it says, and its row holds when."""


# --- Asking for a run (the ticker) -------------------------------------------------------------


def ask_for_due_work(*, wanted: frozenset[str] = frozenset()) -> tuple[set[str], timedelta]:
    """Ask for a run of all work that is due or wanted now.

    The answer: the names that were asked for, and how long until something else is due.
    """
    known = {row.name: row for row in _rows()}
    asked, pauses = set(), [LONGEST_PAUSE]
    for work in works():
        row = known.get(work.name) or PeriodicWork.objects.create(name=work.name)
        if getattr(row, "may_be_lost", False):
            _look_after_lost(row)
        elif row.asked_at is not None or getattr(row, "runs", False):
            continue
        elif work.name in wanted or (pause := _due_in(row, work=work)) <= timedelta():
            _nudge(row)
            asked.add(work.name)
        else:
            pauses.append(pause)
    return asked, min(pauses)


def _rows() -> Iterator[PeriodicWork]:
    boolean, duration = BooleanField(), DurationField()
    lost = Q(asked_at__isnull=False, look_again_at__lt=Now())
    return PeriodicWork.objects.annotate(
        age=ExpressionWrapper(Now() - F("nudged_at"), output_field=duration),
        runs=ExpressionWrapper(Q(running_until__gt=Now()), output_field=boolean),
        may_be_lost=ExpressionWrapper(lost, output_field=boolean),
    ).iterator()


def _due_in(row: PeriodicWork, *, work: Work) -> timedelta:
    age: timedelta | None = getattr(row, "age", None)
    return timedelta() if age is None else work.pause - age


def _nudge(row: PeriodicWork) -> None:
    _withdraw(row.receipt)  # left over from a run whose worker was killed
    envelope = _Envelope()
    async_task("core.jobs.periodic.run", row.name, task_name=row.name, broker=envelope)
    PeriodicWork.objects.filter(name=row.name).update(
        asked_at=Coalesce("asked_at", Now()),
        nudged_at=Now(),
        look_again_at=Now() + LOST_AFTER,
        receipt=envelope.receipt,
    )


def _look_after_lost(row: PeriodicWork) -> None:
    """Send the task again if a worker took it and died; leave it in its place if it waits."""
    if _waits(row.receipt):
        PeriodicWork.objects.filter(name=row.name).update(look_again_at=Now() + LOST_AFTER)
    else:
        logger.warning("The task for periodic work '%s' was lost and is sent again", row.name)
        _nudge(row)


class _Envelope:
    """Stands in for the broker in one `async_task`, to keep the receipt of what was sent."""

    def __init__(self) -> None:
        self.broker: Broker = get_broker()
        self.list_key = self.broker.list_key
        self.receipt = ""

    def enqueue(self, task: str) -> int:
        number: int = self.broker.enqueue(task)
        self.receipt = task if settings.REDIS_URL else str(number)
        return number


def _waits(receipt: str) -> bool:
    if settings.REDIS_URL:
        broker = get_broker()
        return broker.connection.lpos(broker.list_key, receipt) is not None
    # A receipt of another broker, used before this one, is of a task that nobody will run.
    return receipt.isdecimal() and OrmQ.objects.filter(pk=int(receipt), lock__lte=Now()).exists()


def _withdraw(receipt: str) -> None:
    if receipt and settings.REDIS_URL:
        broker = get_broker()
        broker.connection.lrem(broker.list_key, 1, receipt)
    elif receipt.isdecimal():
        OrmQ.objects.filter(pk=int(receipt)).delete()


# --- Running it (a worker) ---------------------------------------------------------------------


def run(name: str) -> bool:
    """Run the work if a run is asked for and none is under way; say whether it ran."""
    work = next((work for work in works() if work.name == name), None)
    token = uuid.uuid4().hex
    if work is None or not _claim(name, token=token):
        logger.debug("No run of periodic work '%s' is asked for", name)
        return False
    with _recorded(name, token=token):
        import_string(work.function)()
    return True


def _claim(name: str, *, token: str) -> bool:
    """Take the run that is asked for; only one worker can."""
    nobody_runs_it = Q(running_until__isnull=True) | Q(running_until__lt=Now())
    asked_for = PeriodicWork.objects.filter(nobody_runs_it, name=name, asked_at__isnull=False)
    return bool(
        asked_for.update(
            asked_at=None, started_at=Now(), running_until=Now() + RUN_LEASE, running_by=token
        )
    )


@contextmanager
def _recorded(name: str, *, token: str) -> Iterator[None]:
    begin = time.monotonic()
    try:
        with _kept(name, token=token):
            yield
    except BaseException as error:  # a task's timeout is no Exception
        message = f"{type(error).__name__}: {error}"
        logger.exception("Periodic work '%s' failed: %s", name, message)
        _record(name, token=token, begin=begin, error=message)
        raise
    _record(name, token=token, begin=begin, error="")


@contextmanager
def _kept(name: str, *, token: str) -> Iterator[None]:
    """Show that the run goes on for as long as it does."""
    done = threading.Event()
    keeper = threading.Thread(target=_keep, args=(name, token, done), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()


def _keep(name: str, token: str, done: threading.Event) -> None:
    """On a connection of its own, opened only if the run takes longer than most. A worker that
    hangs is ended by django-q2 when its time is up, and this thread with it."""
    mine = PeriodicWork.objects.filter(name=name, running_by=token)
    try:
        while not done.wait(RUN_LEASE.total_seconds() / 3):
            with suppress(Error):  # the database is away: so are those who could take over
                mine.update(running_until=Now() + RUN_LEASE)
            connection.close_if_unusable_or_obsolete()
    finally:
        connection.close()


def _record(name: str, *, token: str, begin: float, error: str) -> None:
    """Write how the run ended, unless it was given up for dead and another one has begun."""
    PeriodicWork.objects.filter(name=name, running_by=token).update(
        **{"failed_at" if error else "finished_at": Now()},
        running_until=None,
        running_by="",
        duration=timedelta(seconds=time.monotonic() - begin),
        error=error,
    )
