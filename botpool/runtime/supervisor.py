"""Keeps the parts of Botpool running in the foreground, and ends them all together."""

import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from django.conf import settings

from botpool.runtime.process import Part
from botpool.runtime.reaper import Guard

GRACE = 8.0
TURN = 0.2
ONE_SIGNAL = 1.0
COLOURS = ("36", "32", "33", "35", "34", "31")


class Supervisor:
    """Run parts until SIGINT, SIGTERM or SIGHUP; a second signal does not wait for them, unless
    it comes at once: whoever stops a whole group of processes sends us two for one.

    `look_after` is called at each turn, for what the parts stand on. `keep_open` is a descriptor
    that stays open until the last process is gone, even when the supervisor is killed.
    """

    def __init__(
        self,
        parts: list[Part],
        *,
        look_after: Callable[[], None] = lambda: None,
        keep_open: int | None = None,
    ) -> None:
        self.parts = parts
        self.look_after = look_after
        self.keep_open = keep_open
        self.signals = 0
        self.first_signal_at = 0.0
        self.readers = selectors.DefaultSelector()
        self.width = max(len(name) for name in ["botpool", *(part.name for part in parts)])

    def run(self) -> None:
        self.guard = Guard(keep_open=self.keep_open)
        try:
            with self._signals_counted():
                while not self.signals:
                    self._turn()
                self._stop_all()
        finally:
            self._kill_all()
            self.guard.dismiss()
            self.readers.close()

    def say(self, message: str) -> None:
        self._print("botpool", message)

    def _turn(self) -> None:
        self.look_after()
        self.guard.revive()
        for part in self.parts:
            if part.is_due:
                self._start(part)
            elif part.has_ended():
                self._bury(part)
                self.say(f"{part.name} is started again in {part.pause:.0f} s")
            elif part.process is not None and (reason := part.complaint()):
                self.say(f"{part.name} is replaced: {reason}")
                self._bury(part)
                part.start_again_at = 0.0
        self._pass_on_output(TURN)

    def _start(self, part: Part) -> None:
        part.start(self.guard)
        self.readers.register(part.output, selectors.EVENT_READ, part)

    def _bury(self, part: Part) -> None:
        part.kill()
        while self._print_lines(part):
            continue
        if line := part.last_line():
            self._print(part.name, line)
        self._stop_reading(part)
        self.say(f"{part.name} ended ({part.bury(self.guard)})")

    def _stop_reading(self, part: Part) -> None:
        if part.output in self.readers.get_map():
            self.readers.unregister(part.output)

    def _stop_all(self) -> None:
        self.say("stopping")
        for part in self.parts:
            part.ask_to_stop()
        deadline = time.monotonic() + GRACE
        while any(part.process for part in self.parts):
            if self.signals > 1 or time.monotonic() > deadline:
                return
            self._pass_on_output(TURN / 4)
            for part in self.parts:
                if part.has_ended():
                    self._bury(part)

    def _kill_all(self) -> None:
        for part in self.parts:
            part.kill()
        for part in self.parts:
            if part.process is not None:
                self._bury(part)

    def _pass_on_output(self, timeout: float) -> None:
        if not self.readers.get_map():
            time.sleep(timeout)
        for key, _ in self.readers.select(timeout):
            self._print_lines(key.data)

    def _print_lines(self, part: Part) -> bool:
        """Print what a part has written; False if there was nothing."""
        lines = part.read_lines()
        if lines is None:
            self._stop_reading(part)
        for line in lines or []:
            self._print(part.name, line)
        return bool(lines)

    def _print(self, name: str, line: str) -> None:
        try:
            prefix = f"{name:<{self.width}} | "
            if settings.LOG_FORMAT == "json":
                prefix = ""  # each line is an object, for machines
            elif sys.stdout.isatty():
                prefix = f"\x1b[{self._colour(name)}m{prefix}\x1b[0m"
            sys.stdout.write(f"{prefix}{line}\n")
            sys.stdout.flush()
        except OSError:  # nobody reads any more: the terminal or the pipe behind us is gone
            self.signals = max(self.signals, 1)

    def _colour(self, name: str) -> str:
        names = ["botpool", *(part.name for part in self.parts)]
        return COLOURS[names.index(name) % len(COLOURS)]

    @contextmanager
    def _signals_counted(self) -> Iterator[None]:
        def count(number: int, frame: FrameType | None) -> None:
            now = time.monotonic()
            if not self.signals:
                self.signals, self.first_signal_at = 1, now
            elif now - self.first_signal_at > ONE_SIGNAL:
                self.signals += 1

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = [signal.signal(number, count) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                with suppress(TypeError):  # a handler that was not set from Python
                    signal.signal(number, handler)
