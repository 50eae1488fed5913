"""Watches a django-q2 cluster from outside, because it can freeze silently.

An idle worker that is killed (by the kernel when memory runs out, for example) takes the lock of
the cluster's queue with it, and no task runs any more. The workers therefore report the beginning
and end of every task over a datagram socket. A cluster is frozen if its workers are silent, none
of them is running a task, and the heartbeat, an ordinary task, waits in the queue. If no heartbeat
waits, silence proves nothing: the ticker or the database is away.

A cluster that was replaced before its first task may only have been slow to start, on a machine
that is too busy. So the next one gets twice the time: else none would ever run a task.

If the cluster's monitor is killed, tasks run but are never acknowledged, so they run again and
again. The watchdog replaces such a cluster too.
"""

import logging
import os
import shutil
import signal
import socket
import tempfile
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django_q.conf import Conf
from django_q.signals import post_execute, post_execute_in_worker, pre_execute

from core.jobs.jobs import WORKER_HEARTBEAT

logger = logging.getLogger(__name__)

SOCKET_VARIABLE = "BOTPOOL_WATCH_SOCKET"
CHECK_DATABASE_EVERY = 1.0
DATABASE_TIMEOUT = 3  # seconds
MOST_TIME_TO_START = 10  # times the limit
REPLACE_IDLE_AFTER = 10  # times the limit; replacing an idle cluster does no harm


# --- In the workers ----------------------------------------------------------------------------


def report_tasks_to_watchdog() -> None:
    """Make the workers of this cluster report every task, if there is a watchdog."""
    if SOCKET_VARIABLE in os.environ:
        pre_execute.connect(_report_begin)
        post_execute_in_worker.connect(_report_end)
        post_execute.connect(_report_acknowledged)


def _report_begin(**kwargs: Any) -> None:
    _report("begin")


def _report_end(**kwargs: Any) -> None:
    _report("end")


def _report_acknowledged(**kwargs: Any) -> None:
    _report("acknowledged")


def _report(event: str) -> None:
    # A worker must never wait for the watchdog, or fail because of it.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(f"{os.getpid()} {event}".encode(), os.environ[SOCKET_VARIABLE])
        except ConnectionRefusedError:
            _end_without_supervisor()


def _end_without_supervisor() -> None:
    """Kill this cluster: with supervisor and reaper gone, nothing would ever replace or stop it.

    The process group is the cluster's own (botpool.runtime.process).
    """
    logger.error("The supervisor of this cluster is gone: killing the cluster")
    os.killpg(os.getpgrp(), signal.SIGKILL)


# --- In the supervisor -------------------------------------------------------------------------


class WorkerWatchdog:
    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="botpool-watch-"))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.home / "socket"))
        self.socket.setblocking(False)
        self.environment = {SOCKET_VARIABLE: str(self.home / "socket")}
        self.limit = self.time_to_start = settings.WORKER_SILENCE_LIMIT.total_seconds()
        self.next_check = 0.0
        self.cluster_starts()

    def close(self) -> None:
        self.socket.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def cluster_starts(self) -> None:
        self._listen()
        self.has_run_a_task = False
        self.tasks_begun: dict[int, float] = {}
        self.unacknowledged_since: float | None = None
        self.last_heard = time.monotonic()

    def complaint(self) -> str | None:
        """Return why the cluster must be replaced, or None."""
        self._listen()
        now = time.monotonic()
        if self.unacknowledged_since and now - self.unacknowledged_since > self.limit:
            return f"no task was acknowledged for {now - self.unacknowledged_since:.0f} s"
        silence = now - self.last_heard
        limit = self.limit if self.has_run_a_task else self.time_to_start
        if silence < limit or now < self.next_check or self._is_running_a_task(now):
            return None
        self.next_check = now + CHECK_DATABASE_EVERY
        return self._judge(silence)

    def _judge(self, silence: float) -> str | None:
        waits, finished = _heartbeat()
        if waits is not None and waits > self.limit:
            if not self.has_run_a_task:
                longest = MOST_TIME_TO_START * self.limit
                self.time_to_start = min(2 * self.time_to_start, longest)
            return f"frozen: no task ran for {silence:.0f} s while the heartbeat waited"
        others_work = finished is not None and finished < self.limit
        if others_work and silence > REPLACE_IDLE_AFTER * self.limit:
            return f"idle for {silence:.0f} s while other workers run tasks; perhaps frozen"
        return None

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._note(self.socket.recv(100).decode())

    def _note(self, message: str) -> None:
        pid, event = message.split()
        if event == "acknowledged":
            self.unacknowledged_since = None
            return
        self.last_heard = time.monotonic()
        self.has_run_a_task, self.time_to_start = True, self.limit
        self.tasks_begun.pop(int(pid), None)
        if event == "begin":
            self.tasks_begun[int(pid)] = self.last_heard
        elif self.unacknowledged_since is None:
            self.unacknowledged_since = self.last_heard

    def _is_running_a_task(self, now: float) -> bool:
        longest = Conf.TIMEOUT + self.limit
        return any(
            now - begin < longest and _is_alive(pid) for pid, begin in self.tasks_begun.items()
        )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _heartbeat() -> tuple[float | None, float | None]:
    """Return for how many seconds the heartbeat has waited, and how long ago it last ran."""
    sql = (
        "SELECT extract(epoch FROM now() - asked_at)::float,"
        " extract(epoch FROM now() - finished_at)::float"
        " FROM slots_lease WHERE key = %s"
    )
    try:
        return _ask_database(sql, [WORKER_HEARTBEAT]) or (None, None)
    except Error:
        return None, None


def give_back_tasks(*, taken_for: timedelta) -> None:
    """Make tasks that a dead cluster took available to other workers, without waiting for `retry`.

    django-q2 does not record which cluster took a task. A task that a living cluster has been
    running for longer than `taken_for` runs a second time; every task is safe to repeat. A locked
    row is left alone: it is being deleted, in an order of its own, and waiting could deadlock.
    """
    sql = (
        "UPDATE django_q_ormq SET lock = now() WHERE id = ANY(ARRAY("
        "SELECT id FROM django_q_ormq"
        " WHERE lock > now() AND lock < now() + make_interval(secs => %s) FOR UPDATE SKIP LOCKED"
        ")) RETURNING true, true"
    )
    with suppress(Error):
        _ask_database(sql, [Conf.RETRY - taken_for.total_seconds()])


def _ask_database(sql: str, parameters: list[Any]) -> Any:
    """Fetch one row over a separate connection that cannot hold up the supervisor for long."""
    fresh = connection.copy()
    options = {**fresh.settings_dict["OPTIONS"], "connect_timeout": DATABASE_TIMEOUT}
    fresh.settings_dict = {**fresh.settings_dict, "OPTIONS": options}
    try:
        fresh.set_autocommit(False)
        with fresh.cursor() as cursor:
            # SET LOCAL, not a connection option: PgBouncer rejects those.
            cursor.execute(f"SET LOCAL statement_timeout = '{DATABASE_TIMEOUT}s'")
            cursor.execute(sql, parameters)
            answer = cursor.fetchone()
        fresh.commit()
        return answer
    finally:
        fresh.close()
