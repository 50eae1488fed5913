"""Kills the processes that a killed supervisor leaves behind.

The supervisor runs this file as a separate process and tells it over a pipe which process groups
have begun (`+pid`) and ended (`-pid`). When the pipe closes, the supervisor is gone, and the reaper
kills all groups that are left. A new process announces itself before it executes its program, so
the reaper cannot miss one.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO


class Reaper:
    """The supervisor's handle on the reaper process, which holds `keep_open` while it runs."""

    def __init__(self, *, keep_open: int | None = None) -> None:
        self._keep_open = () if keep_open is None else (keep_open,)
        self._groups: set[int] = set()
        self._start()

    def announce(self) -> None:
        """Report this process. Called in the child, after its fork and before its exec."""
        self._write(b"+%d\n" % os.getpid())

    def began(self, group: int) -> None:
        self._groups.add(group)

    def ended(self, group: int) -> None:
        self._groups.discard(group)
        self._write(b"-%d\n" % group)

    def revive(self) -> None:
        """Start the reaper process again if it was killed."""
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
        with suppress(BrokenPipeError):  # revive() reports all groups again
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
    """Read until the supervisor is gone, and return the groups that it did not end."""
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line.startswith(b"+") else groups.discard
        change(int(line[1:]))
    return groups


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kill_groups(groups_left_open(sys.stdin.buffer))
