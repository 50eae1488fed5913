"""A part of a running Botpool: one process with all that it starts, in a session of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from botpool.runtime.reaper import Guard, kill_groups

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
RAN_WELL = 60.0


def _no_complaint() -> str | None:
    return None


def _nothing() -> None:
    return None


@dataclass(kw_only=True)
class Part:
    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    complaint: Callable[[], str | None] = _no_complaint  # why it must be replaced, if it must
    before_start: Callable[[], None] = _nothing

    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started_at: float = field(default=0.0, init=False)
    start_again_at: float = field(default=0.0, init=False)
    pause: float = field(default=0.0, init=False)
    unfinished_line: bytes = field(default=b"", init=False)

    @property
    def is_due(self) -> bool:
        return self.process is None and time.monotonic() >= self.start_again_at

    def start(self, guard: Guard) -> None:
        self.before_start()
        self.process = subprocess.Popen(  # noqa: S603 (our own commands)
            self.command,
            env={**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=guard.tell_of_myself,
        )
        guard.began(self.process.pid)
        os.set_blocking(self.output, False)
        self.started_at = time.monotonic()

    @property
    def output(self) -> int:
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout.fileno()

    def read_lines(self) -> list[str] | None:
        """The whole lines that have come since the last time; None when no more will come."""
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
        return self.process is not None and self.process.poll() is not None

    def ask_to_stop(self) -> None:
        """SIGTERM to the leader only: it knows best in which order to end its own children."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self.process is not None:
            kill_groups([self.process.pid])

    def bury(self, guard: Guard) -> str:
        """After the leader's end, or to make it end: nothing of the group stays behind."""
        assert self.process is not None and self.process.stdout is not None
        self.kill()
        code = self.process.wait()
        guard.ended(self.process.pid)
        self.process.stdout.close()
        self.process = None
        self._plan_next_start()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _plan_next_start(self) -> None:
        ran_well = time.monotonic() - self.started_at >= RAN_WELL
        grown = min(self.pause * 2, LONGEST_PAUSE) if self.pause else FIRST_PAUSE
        self.pause = FIRST_PAUSE if ran_well else grown
        self.start_again_at = time.monotonic() + self.pause
