"""Watches a django-q2 cluster from outside, because it can freeze without a word.

When one of its idle workers is killed (the kernel does that when memory runs out), the worker
takes the lock of the cluster's queue with it, and no task is run any more. The workers therefore
tell the watch, over a datagram socket, when they begin and end a task. A cluster is frozen when
its workers are silent, none of them is in the middle of a task, and the heartbeat, a task like any
other, waits in the queue. Without a heartbeat that waits nothing is held against it: then the
ticker or the database is away. When its monitor is killed, the tasks are run but not acknowledged,
and so run again and again: a cluster is replaced for that, too.
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

from core.jobs.periodic import WORKER_HEARTBEAT

logger = logging.getLogger(__name__)

SOCKET_VARIABLE = "BOTPOOL_WATCH_SOCKET"
LOOK_AT_DATABASE_EVERY = 1.0
DATABASE_PATIENCE = 3  # seconds
HARMLESS_TO_REPLACE = 10  # times the limit: an idle cluster that others leave nothing to do


# --- In the workers ----------------------------------------------------------------------------


def tell_watch_of_tasks() -> None:
    """Make the workers of this cluster tell of every task, if somebody watches."""
    if SOCKET_VARIABLE in os.environ:
        pre_execute.connect(_tell_begin)
        post_execute_in_worker.connect(_tell_end)
        post_execute.connect(_tell_acknowledged)


def _tell_begin(**kwargs: Any) -> None:
    _tell("begin")


def _tell_end(**kwargs: Any) -> None:
    _tell("end")


def _tell_acknowledged(**kwargs: Any) -> None:
    _tell("acknowledged")


def _tell(event: str) -> None:
    # A worker must not wait for, nor fail with, whoever watches it.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
        mouth.setblocking(False)
        try:
            mouth.sendto(f"{os.getpid()} {event}".encode(), os.environ[SOCKET_VARIABLE])
        except ConnectionRefusedError:
            _end_without_supervisor()


def _end_without_supervisor() -> None:
    """It was killed, and with it the guard, who would have ended us: nobody would replace this
    cluster any more, nor ever stop it. The group is the cluster's own (botpool.runtime.process)."""
    logger.error("The supervisor of this cluster is gone: the cluster ends")
    os.killpg(os.getpgrp(), signal.SIGKILL)


# --- Beside them -------------------------------------------------------------------------------


class WorkerWatch:
    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="botpool-watch-"))
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ear.bind(str(self.home / "socket"))
        self.ear.setblocking(False)
        self.environment = {SOCKET_VARIABLE: str(self.home / "socket")}
        self.limit = settings.WORKER_SILENCE_LIMIT.total_seconds()
        self.next_look = 0.0
        self.cluster_starts()

    def close(self) -> None:
        self.ear.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def cluster_starts(self) -> None:
        self._listen()
        self.tasks_begun: dict[int, float] = {}
        self.unacknowledged_since: float | None = None
        self.last_heard = time.monotonic()

    def complaint(self) -> str | None:
        """Why the cluster must be replaced, if it must."""
        self._listen()
        now = time.monotonic()
        if self.unacknowledged_since and now - self.unacknowledged_since > self.limit:
            return f"no task was acknowledged for {now - self.unacknowledged_since:.0f} s"
        silence = now - self.last_heard
        if silence < self.limit or now < self.next_look or self._somebody_works(now):
            return None
        self.next_look = now + LOOK_AT_DATABASE_EVERY
        return self._judge(silence)

    def _judge(self, silence: float) -> str | None:
        waits, finished = _heartbeat()
        if waits is not None and waits > self.limit:
            return f"frozen, no task was run for {silence:.0f} s while the heartbeat waited"
        others_work = finished is not None and finished < self.limit
        if others_work and silence > HARMLESS_TO_REPLACE * self.limit:
            return f"idle for {silence:.0f} s while other workers run tasks; perhaps frozen"
        return None

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._note(self.ear.recv(100).decode())

    def _note(self, message: str) -> None:
        pid, event = message.split()
        if event == "acknowledged":
            self.unacknowledged_since = None
            return
        self.last_heard = time.monotonic()
        self.tasks_begun.pop(int(pid), None)
        if event == "begin":
            self.tasks_begun[int(pid)] = self.last_heard
        elif self.unacknowledged_since is None:
            self.unacknowledged_since = self.last_heard

    def _somebody_works(self, now: float) -> bool:
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
    """For how many seconds the heartbeat has been waiting, and since when it last ran."""
    sql = (
        "SELECT extract(epoch FROM now() - asked_at)::float,"
        " extract(epoch FROM now() - finished_at)::float"
        " FROM botpool_periodicwork WHERE name = %s"
    )
    try:
        return _ask_database(sql, [WORKER_HEARTBEAT]) or (None, None)
    except Error:
        return None, None


def give_back_tasks(*, taken_for: timedelta) -> None:
    """Let other workers have the tasks that a dead cluster took, without waiting for `retry`.

    django-q2 does not say which cluster took a task. One that a living cluster has been running
    for longer than `taken_for` is run a second time, for which every task is made.
    """
    sql = (
        "UPDATE django_q_ormq SET lock = now()"
        " WHERE lock > now() AND lock < now() + make_interval(secs => %s) RETURNING true, true"
    )
    with suppress(Error):
        _ask_database(sql, [Conf.RETRY - taken_for.total_seconds()])


def _ask_database(sql: str, parameters: list[Any]) -> Any:
    """One answer over a connection of its own that cannot hold up the supervisor for long."""
    fresh = connection.copy()
    options = {**fresh.settings_dict["OPTIONS"], "connect_timeout": DATABASE_PATIENCE}
    fresh.settings_dict = {**fresh.settings_dict, "OPTIONS": options}
    try:
        fresh.set_autocommit(False)
        with fresh.cursor() as cursor:
            # Within the transaction, and not as an option of the session: PgBouncer knows no such.
            cursor.execute(f"SET LOCAL statement_timeout = '{DATABASE_PATIENCE}s'")
            cursor.execute(sql, parameters)
            answer = cursor.fetchone()
        fresh.commit()
        return answer
    finally:
        fresh.close()
