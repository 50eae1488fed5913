"""The processes of the fleet, which can be killed, frozen and thawed, and are restarted."""

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.processes import ROOT

RESTARTED_AFTER = 1.0


@dataclass
class Member:
    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    ended_at: float | None = None
    starts: int = 0
    frozen: list[psutil.Process] = field(default_factory=list)
    freezes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.ended_at = None
        self.starts += 1

    def family(self) -> list[psutil.Process]:
        """The process itself, then its descendants."""
        with suppress(psutil.NoSuchProcess):
            if self.process is not None:
                leader = psutil.Process(self.process.pid)
                return [leader, *leader.children(recursive=True)]
        return []

    def kill(self) -> None:
        """Kill the whole family, stopped first: none of its processes may start another one."""
        stopped = self.family()
        send(signal.SIGSTOP, stopped)
        # Another blow may kill the leader in between: then its children are no longer family.
        send(signal.SIGKILL, [*stopped, *self.family()])

    def kill_leader(self) -> None:
        """Kill the process only; its children must notice that it is gone."""
        send(signal.SIGKILL, self.family()[:1])

    def freeze(self) -> None:
        """Freeze until `thaw` is called as often: several blows may freeze a member at once."""
        with self.lock:
            self.freezes += 1
            family = self.family()
            # Keep processes frozen earlier: they may have lost their leader and left the family.
            self.frozen += family
            send(signal.SIGSTOP, family)

    def thaw(self, *, for_good: bool = False) -> None:
        with self.lock:
            self.freezes = 0 if for_good else max(0, self.freezes - 1)
            if self.freezes == 0:
                send(signal.SIGCONT, self.frozen)
                self.frozen = []

    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None


def send(number: signal.Signals, processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            process.send_signal(number)


class Keeper:
    """Restarts members that have ended, as an init system does."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._keep, name="keeper")

    def start(self) -> None:
        for member in self.members:
            member.start()
        self.thread.start()

    def stop(self) -> None:
        self.done.set()
        self.thread.join()
        for member in self.members:
            member.thaw(for_good=True)
            member.kill()
        for member in self.members:
            if member.process is not None:
                member.process.wait()

    @property
    def restarts(self) -> int:
        return sum(member.starts - 1 for member in self.members)

    def _keep(self) -> None:
        while not self.done.wait(0.1):
            for member in self.members:
                self._restart_if_ended(member)

    def _restart_if_ended(self, member: Member) -> None:
        if not member.has_ended():
            return
        now = time.monotonic()
        member.ended_at = member.ended_at or now
        if now - member.ended_at > RESTARTED_AFTER:
            member.start()


def with_log(directory: Path, name: str) -> Path:
    directory.mkdir(exist_ok=True)
    return directory / f"{name}.log"


def clean_environment() -> dict[str, str]:
    """An environment without the caller's own Botpool settings."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")
    return {name: os.environ[name] for name in kept if name in os.environ}
