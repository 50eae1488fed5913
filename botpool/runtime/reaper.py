"""Ends what a killed supervisor leaves behind.

The supervisor starts this file as a process of its own and tells it over a pipe which process
groups it has begun (`+pid`) and ended (`-pid`). When the pipe closes, because the supervisor went
away in whatever manner, all groups that are left are killed. A process tells of itself before it
becomes its program, so that there is no moment at which the guard could miss one.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO


class Guard:
    """The supervisor's end of it. `keep_open` is a descriptor that lives as long as the guard."""

    def __init__(self, *, keep_open: int | None = None) -> None:
        self._keep_open = () if keep_open is None else (keep_open,)
        self._groups: set[int] = set()
        self._start()

    def tell_of_myself(self) -> None:
        """Called in a new process, in its own session, before it becomes its program."""
        self._write(b"+%d\n" % os.getpid())

    def began(self, group: int) -> None:
        self._groups.add(group)

    def ended(self, group: int) -> None:
        self._groups.discard(group)
        self._write(b"-%d\n" % group)

    def revive(self) -> None:
        """Start the guard again if something killed it."""
        if self._process.poll() is not None:
            self._close_pipe()
            self._start()

    def dismiss(self) -> None:
        self._close_pipe()
        self._process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 (this very file)
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self._keep_open,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        for group in self._groups:
            self._write(b"+%d\n" % group)

    def _write(self, line: bytes) -> None:
        with suppress(BrokenPipeError):  # a killed guard is told all groups when it is revived
            os.write(self._pipe, line)

    def _close_pipe(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()


def kill_groups(groups: Iterable[int]) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):  # gone, or (macOS) zombies only
            os.killpg(group, signal.SIGKILL)


def groups_left_open(lines: BinaryIO) -> set[int]:
    """Read until the supervisor is gone; the groups that it began and did not end."""
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line.startswith(b"+") else groups.discard
        change(int(line[1:]))
    return groups


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kill_groups(groups_left_open(sys.stdin.buffer))
