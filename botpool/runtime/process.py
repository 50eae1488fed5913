"""One process of Botpool with its children, in a session of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from botpool.runtime.orphans import end_with
from botpool.runtime.reaper import Reaper, kill_groups

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
RAN_WELL = 60.0
NICENESS = 10  # about a tenth of the usual share


def _no_complaint() -> str | None:
    return None


def _nothing() -> None:
    return None


@dataclass(kw_only=True)
class ManagedProcess:
    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    complaint: Callable[[], str | None] = _no_complaint  # why to replace it, or None
    before_start: Callable[[], None] = _nothing
    before_stop: Callable[[], None] = _nothing  # before it is asked to stop for good
    pass_fds: tuple[int, ...] = ()  # descriptors that stay open in it
    gives_way: bool = False  # to the other processes, where there is not enough CPU for all

    popen: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started_at: float = field(default=0.0, init=False)
    start_again_at: float = field(default=0.0, init=False)
    pause: float = field(default=0.0, init=False)
    unfinished_line: bytes = field(default=b"", init=False)

    @property
    def is_due(self) -> bool:
        return self.popen is None and time.monotonic() >= self.start_again_at

    def start(self, reaper: Reaper) -> None:
        self.before_start()
        self.popen = subprocess.Popen(  # noqa: S603 (our own commands)
            self.command,
            env={**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self.pass_fds,
            preexec_fn=partial(self._begin, reaper, os.getpid()),
        )
        reaper.began(self.popen.pid)
        os.set_blocking(self.output, False)
        self.started_at = time.monotonic()

    def _begin(self, reaper: Reaper, supervisor: int) -> None:
        """Runs in the new process, before its command."""
        end_with(supervisor)
        reaper.announce()
        if self.gives_way:
            os.nice(NICENESS)
            # Linux weighs whole sessions against each other, where it groups processes by them.
            with suppress(OSError):
                Path("/proc/self/autogroup").write_text(str(NICENESS))

    @property
    def output(self) -> int:
        assert self.popen is not None and self.popen.stdout is not None
        return self.popen.stdout.fileno()

    def read_lines(self) -> list[str] | None:
        """Return the complete lines written since the last call, or None at the end of output."""
        try:
            piece = os.read(self.output, 65536)
        except BlockingIOError:
            return []
        if not piece:
            return None
        *lines, self.unfinished_line = (self.unfinished_line + piece).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def last_line(self) -> str:
        line, self.unfinished_line = self.unfinished_line, b""
        return line.decode(errors="replace")

    def has_ended(self) -> bool:
        return self.popen is not None and self.popen.poll() is not None

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the leader only, which stops its own children in the right order."""
        self.before_stop()
        if self.popen is not None:
            self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self.popen is not None:
            kill_groups([self.popen.pid])

    def reap(self, reaper: Reaper) -> str:
        """Kill what is left of the group, plan the next start, and return how the leader ended."""
        assert self.popen is not None and self.popen.stdout is not None
        self.kill()
        code = self.popen.wait()
        reaper.ended(self.popen.pid)
        self.popen.stdout.close()
        self.popen = None
        self._plan_next_start()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _plan_next_start(self) -> None:
        ran_well = time.monotonic() - self.started_at >= RAN_WELL
        grown = min(self.pause * 2, LONGEST_PAUSE) if self.pause else FIRST_PAUSE
        self.pause = FIRST_PAUSE if ran_well else grown
        self.start_again_at = time.monotonic() + self.pause
