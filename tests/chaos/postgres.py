"""Two PostgreSQL servers: a primary, and a standby that follows it and can take its place.

Replication is synchronous, so a failover loses no commit that a client was told of. Gates connect
through a symbolic link to the primary's socket, as through an address that moves with it.
"""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from botpool.runtime.postgres import server as postgres
from tests.processes import wait_until

SUPERVISED = "-c default_transaction_read_only=off"  # the harness can always write
_STREAMS = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'"


class Pair:
    def __init__(self, directory: Path, first: postgres.Server) -> None:
        self.primary = first
        self.spare = postgres.Server(directory / "second")
        self.link = directory / "primary"
        self.change = threading.Lock()  # one kill or failover at a time
        self._point_at(first)

    @property
    def socket(self) -> str:
        return f"{self.link}/.s.PGSQL.{postgres.PORT}"

    def prepare(self) -> None:
        """Lose no commit when PostgreSQL is killed, and record commit times for the checker."""
        for setting in (
            "synchronous_commit = on",
            "track_commit_timestamp = on",
            "wal_retrieve_retry_interval = '200ms'",
        ):
            self.ask(f"ALTER SYSTEM SET {setting}")
        self.primary.stop()
        self.primary.start(throw_away=True)

    def follow(self) -> None:
        """Make the spare server anew, as a standby of the primary."""
        self.spare.make_directories()
        shutil.rmtree(self.spare.cluster, ignore_errors=True)
        self.spare._own_directory(self.spare.cluster)
        source = ("-h", self.primary.socket_dir, "-p", postgres.PORT, "-U", "botpool")
        how = ("-R", "-c", "fast", "--no-sync", "-D", self.spare.cluster)
        self.spare._run("pg_basebackup", *source, *how)
        self.spare.start(throw_away=True)
        self._wait_for_every_commit(True)

    def _wait_for_every_commit(self, wanted: bool) -> None:
        self.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if wanted else ''}'")
        self.ask("SELECT pg_reload_conf()")
        if wanted:
            wait_until(lambda: self.ask(_STREAMS), what="the standby follows the primary")

    def kill(self) -> None:
        pid = int((self.primary.cluster / "postmaster.pid").read_text().split()[0])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(self.primary.is_gone, what="the killed PostgreSQL is gone")

    def start(self) -> None:
        self.primary.start(throw_away=True)

    def fail_over(self) -> None:
        """Promote the standby. The primary has been killed."""
        self.spare._run("pg_ctl", "promote", "-W", "-D", self.spare.cluster)
        self.primary, self.spare = self.spare, self.primary
        wait_until(
            lambda: self.ask("SELECT 1 WHERE NOT pg_is_in_recovery()"),
            what="the standby is the primary",
        )
        self._wait_for_every_commit(False)
        self._point_at(self.primary)

    def stop(self) -> None:
        # The standby first: the primary's fast stop waits for it.
        self.spare.stop()
        self.primary.stop()

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Query the primary directly, not through a gate."""
        where = {"host": str(self.primary.socket_dir), "port": postgres.PORT}
        with psycopg.connect(
            user="botpool", dbname="botpool", autocommit=True, options=SUPERVISED, **where
        ) as connection:
            cursor = connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def _point_at(self, server: postgres.Server) -> None:
        fresh = self.link.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(server.socket_dir)
        fresh.replace(self.link)


@contextmanager
def running_pair(directory: Path) -> Iterator[Pair]:
    with postgres.running(directory, throw_away=True) as first:
        pair = Pair(directory, first)
        try:
            pair.prepare()
            yield pair
        finally:
            pair.stop()
