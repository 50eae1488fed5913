"""Keeps the processes of Botpool running in the foreground, and stops them together."""

import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from django.conf import settings

from botpool.runtime.process import ManagedProcess
from botpool.runtime.reaper import Reaper

GRACE = 8.0
TURN = 0.2
SAME_SIGNAL_WITHIN = 1.0
COLOURS = ("36", "32", "33", "35", "34", "31")


class Supervisor:
    """Run processes until SIGINT, SIGTERM or SIGHUP; a second signal kills them at once.

    Two signals within a second count as one, because stopping a process group can send two.
    `housekeeping` is called at every turn. `keep_open` is a descriptor that stays open until the
    last process is gone, even if the supervisor is killed.
    """

    def __init__(
        self,
        processes: list[ManagedProcess],
        *,
        housekeeping: Callable[[], None] = lambda: None,
        keep_open: int | None = None,
    ) -> None:
        self.processes = processes
        self.housekeeping = housekeeping
        self.keep_open = keep_open
        self.signals = 0
        self.first_signal_at = 0.0
        self.readers = selectors.DefaultSelector()
        self.width = max(len(name) for name in ["botpool", *(each.name for each in processes)])

    def run(self) -> None:
        self.reaper = Reaper(keep_open=self.keep_open)
        try:
            with self._signals_counted():
                while not self.signals:
                    self._turn()
                self._stop_all()
        finally:
            self._kill_all()
            self.reaper.dismiss()
            self.readers.close()

    def say(self, message: str) -> None:
        self._print("botpool", message)

    def _turn(self) -> None:
        self.housekeeping()
        self.reaper.revive()
        for process in self.processes:
            if process.is_due:
                self._start(process)
            elif process.has_ended():
                self._reap(process)
                self.say(f"restarting {process.name} in {process.pause:.0f} s")
            elif process.popen is not None and (reason := process.complaint()):
                self.say(f"replacing {process.name}: {reason}")
                self._reap(process)
                process.start_again_at = 0.0
        self._pass_on_output(TURN)

    def _start(self, process: ManagedProcess) -> None:
        process.start(self.reaper)
        self.readers.register(process.output, selectors.EVENT_READ, process)

    def _reap(self, process: ManagedProcess) -> None:
        process.kill()
        while self._print_lines(process):
            continue
        if line := process.last_line():
            self._print(process.name, line)
        self._stop_reading(process)
        self.say(f"{process.name} ended ({process.reap(self.reaper)})")

    def _stop_reading(self, process: ManagedProcess) -> None:
        if process.output in self.readers.get_map():
            self.readers.unregister(process.output)

    def _stop_all(self) -> None:
        self.say("stopping")
        for process in self.processes:
            process.ask_to_stop()
        deadline = time.monotonic() + GRACE
        while any(process.popen for process in self.processes):
            if self.signals > 1 or time.monotonic() > deadline:
                return
            self._pass_on_output(TURN / 4)
            for process in self.processes:
                if process.has_ended():
                    self._reap(process)

    def _kill_all(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            if process.popen is not None:
                self._reap(process)

    def _pass_on_output(self, timeout: float) -> None:
        for key, _ in self.readers.select(timeout):
            self._print_lines(key.data)

    def _print_lines(self, process: ManagedProcess) -> bool:
        """Print what the process has written; return whether there was anything."""
        lines = process.read_lines()
        if lines is None:
            self._stop_reading(process)
        for line in lines or []:
            self._print(process.name, line)
        return bool(lines)

    def _print(self, name: str, line: str) -> None:
        try:
            prefix = f"{name:<{self.width}} | "
            if settings.LOG_FORMAT == "json":
                prefix = ""  # each line is a JSON object
            elif sys.stdout.isatty():
                prefix = f"\x1b[{self._colour(name)}m{prefix}\x1b[0m"
            sys.stdout.write(f"{prefix}{line}\n")
            sys.stdout.flush()
        except OSError:  # the terminal or the pipe behind us is gone
            self.signals = max(self.signals, 1)

    def _colour(self, name: str) -> str:
        names = ["botpool", *(process.name for process in self.processes)]
        return COLOURS[names.index(name) % len(COLOURS)]

    @contextmanager
    def _signals_counted(self) -> Iterator[None]:
        def count(number: int, frame: FrameType | None) -> None:
            now = time.monotonic()
            if not self.signals:
                self.signals, self.first_signal_at = 1, now
            elif now - self.first_signal_at > SAME_SIGNAL_WITHIN:
                self.signals += 1

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = [signal.signal(number, count) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                with suppress(TypeError):  # a handler that was not set from Python
                    signal.signal(number, handler)
