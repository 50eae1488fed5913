"""The task queue, in PostgreSQL or Redis, in two lanes.

Periodic work has one lane; jobs of one kind and many ids (`slot:7`) have another. From that one a
node takes no more tasks than it may have Coolify calls in flight, so neither a burst of slots nor
hanging calls delay periodic work.

In PostgreSQL, tasks are timed by the database's clock. django-q2's own broker uses the hosts'
clocks: a worker whose clock is behind would leave tasks waiting. NOTIFY wakes the workers, which
poll only as a safety net (behind PgBouncer in transaction mode no NOTIFY arrives).
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import Error, connection, connections, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django_q.brokers import Broker, get_broker
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ

from core.leases import IS_HELD, Lease
from core.prepared import insert_instance
from core.sql import notify

logger = logging.getLogger(__name__)

CHANNEL = "botpool_task"
LANE = "slot"
NOW = Now()
PAUSE_WHEN_FULL = 0.02
PAUSE_WITHOUT_DATABASE = 0.5

# Not ORM: one statement takes the tasks and skips those that another worker is taking.
_TAKE = """
UPDATE django_q_ormq SET lock = clock_timestamp() + make_interval(secs => %(retry)s)
WHERE id = ANY(ARRAY(
    SELECT id FROM django_q_ormq
    WHERE key = ANY(%(lanes)s) AND lock < clock_timestamp()
    ORDER BY key, id
    LIMIT %(bulk)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, payload, key
"""


class Lanes:
    """Which lanes a node may take tasks from now."""

    def __init__(self, main: str) -> None:
        self.main, self.limited = main, f"{main}:{LANE}"
        self._taken: set[str] = set()

    def open(self) -> list[str]:
        """The main lane goes first."""
        return [self.main] if self.is_full() else [self.main, self.limited]

    def is_full(self) -> bool:
        if len(self._taken) >= calls_in_flight():
            # A task counts from when it is taken, though it may wait for a worker of this node.
            under_way = Lease.objects.filter(IS_HELD | Q(asked_at__isnull=False))
            mine = under_way.filter(receipt__in=self._taken)
            self._taken = set(mine.values_list("receipt", flat=True))
        return len(self._taken) >= calls_in_flight()

    def note(self, lane: str, receipt: str) -> None:
        if lane == self.limited:
            self._taken.add(receipt)


def calls_in_flight() -> int:
    """At least one worker is left for periodic work."""
    return max(1, min(settings.COOLIFY_CONCURRENCY, settings.WORKERS - 1))


class DatabaseBroker(ORM):
    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self.lanes = Lanes(self.list_key)
        self._listening: Any = None

    def queue_size(self) -> int:
        count: int = self._waiting().filter(lock__lte=Now()).count()
        return count

    def lock_size(self) -> int:
        count: int = self._waiting().filter(lock__gt=Now()).count()
        return count

    def _waiting(self) -> Any:
        return self.get_connection().filter(key__in=[self.lanes.main, self.lanes.limited])

    def enqueue(self, task: str, *, lane: str = "") -> int:
        key = self.lanes.limited if lane == LANE else self.lanes.main
        self.get_connection()  # closes a connection that has gone bad
        row = OrmQ(key=key, payload=task, lock=NOW)
        insert_instance(row)
        number: int = row.pk
        return number

    def dequeue(self) -> list[tuple[int, str]] | None:
        with pausing_without_database("take tasks"):
            self.get_connection()  # closes a connection that has gone bad
            tasks = self._take()
            if tasks:
                return tasks
            self._wait()
        return None

    def acknowledge(self, task_id: int) -> None:
        """A task that stays is taken once more, later, and no run was asked for then."""
        with pausing_without_database("remove a finished task"):
            super().acknowledge(task_id)

    def _take(self) -> list[tuple[int, str]]:
        with connections[Conf.ORM].cursor() as cursor:
            cursor.execute(
                _TAKE, {"retry": Conf.RETRY, "lanes": self.lanes.open(), "bulk": Conf.BULK}
            )
            taken = cursor.fetchall()
        for number, _, lane in taken:
            self.lanes.note(lane, str(number))
        return [(number, payload) for number, payload, _ in taken]

    def _wait(self) -> None:
        """Wait until a task is announced, or until the next poll."""
        database = connections[Conf.ORM]
        if self._listening is not database.connection:
            with database.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            self._listening = database.connection
            return  # and poll again: a task may have come before LISTEN
        pause = PAUSE_WHEN_FULL if self.lanes.is_full() else Conf.POLL
        with database.wrap_database_errors:
            for _ in database.connection.notifies(timeout=pause, stop_after=1):
                pass


@contextmanager
def pausing_without_database(to_do: str) -> Iterator[None]:
    """Pause instead of failing: django-q2 takes ten seconds to replace a failed process."""
    try:
        yield
    except Error as error:
        logger.warning("Cannot %s without the database: %s", to_do, str(error).strip())
        connection.close()
        time.sleep(PAUSE_WITHOUT_DATABASE)


def announce_tasks() -> None:
    """Tell the workers that there are tasks, once the transaction commits."""
    notify(CHANNEL)


class Envelope:
    """Stands in for the broker in one `async_task`, to choose the lane and keep the receipt."""

    def __init__(self, *, lane: str) -> None:
        self.broker: Broker = get_broker()
        self.list_key = self.broker.list_key
        self.lane = lane
        self.receipt = ""

    def enqueue(self, task: str) -> int:
        if settings.REDIS_URL:
            self.receipt = task
            # After the commit: a faster worker would find that no run was asked for.
            transaction.on_commit(lambda: self.broker.enqueue(task, lane=self.lane))
            return 0
        number: int = self.broker.enqueue(task, lane=self.lane)
        self.receipt = str(number)
        return number


def is_waiting(receipt: str) -> bool:
    """Whether the task is in the queue and no worker has taken it."""
    if settings.REDIS_URL:
        return bool(get_broker().is_waiting(receipt))
    # A receipt of a different broker, used before this one, is of a task that will not run.
    return receipt.isdecimal() and OrmQ.objects.filter(pk=int(receipt), lock__lte=Now()).exists()


def withdraw(receipt: str) -> None:
    if receipt and settings.REDIS_URL:
        get_broker().withdraw(receipt)
    elif receipt.isdecimal():
        OrmQ.objects.filter(pk=int(receipt)).delete()
