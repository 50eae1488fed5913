"""Real processes of Botpool for tests: start them, kill them, and find those left over."""

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import requests

ROOT = Path(__file__).parent.parent
PATIENCE = 120.0  # for a busy machine; ten times what anything here usually takes
PORTS = 2_000  # per pytest-xdist worker
_turn = itertools.count(random.SystemRandom().randrange(PORTS))


def wait_until(happened: Callable[[], object], *, what: str, timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, f"did not happen within {timeout:.0f} s: {what}"
        time.sleep(0.05)


@contextmanager
def new_data_dir() -> Iterator[Path]:
    """A data directory that PostgreSQL's user can read; fails if it leaves processes behind."""
    directory = Path(tempfile.mkdtemp(prefix="botpool-test-"))
    directory.chmod(0o755)
    try:
        yield directory
        left = wait_until_nothing_is_left(directory)
        assert left == [], left
    finally:
        for process in processes_of(directory):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(directory, ignore_errors=True)


def processes_of(data_dir: Path) -> list[psutil.Process]:
    """All processes that use this data directory, except zombies."""
    return [process for process in psutil.process_iter() if _belongs_to(process, data_dir)]


def _belongs_to(process: psutil.Process, data_dir: Path) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        by_name = str(data_dir) in " ".join(process.cmdline())
        return by_name or process.environ().get("BOTPOOL_DATA_DIR") == str(data_dir)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def wait_until_nothing_is_left(data_dir: Path) -> list[str]:
    """Wait for the processes of this data directory; describe those that do not end."""
    deadline = time.monotonic() + PATIENCE
    while left := processes_of(data_dir):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return [_describe(process) for process in left]


def _describe(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        words = " ".join(process.cmdline()[-3:])
        return f"{process.pid} of {process.ppid()}, {process.status()}: {words}"
    return f"{process.pid}, which has ended since"


def environment(data_dir: Path, **variables: str) -> dict[str, str]:
    # These limits were raised for the tests; these processes get the product's defaults.
    dropped = ("DATABASE_URL", "IDLE_TRANSACTION_LIMIT", "STATEMENT_LIMIT")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "BOTPOOL_DATA_DIR": str(data_dir), **variables}


def free_port() -> int:
    """A port that stays free until it is used.

    It is below the range that the system assigns from, and no other test worker uses it.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 12_000 + PORTS * (number % 10)
    while True:
        port = first + next(_turn) % PORTS
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Program:
    """`manage.py …` in its own session, as in a terminal; `lines` holds its output."""

    def __init__(self, *words: str, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), *words],
            env={**env, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def press_ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def has_ended(self) -> bool:
        return self.process.poll() is not None


class Up(Program):
    """`manage.py up` on a free port."""

    def __init__(self, data_dir: Path, **variables: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        env = environment(data_dir, **variables)
        super().__init__("up", "--port", str(self.port), "--no-demo", "--workers", "2", env=env)

    def get(self, path: str) -> requests.Response | None:
        with suppress(requests.RequestException):
            return requests.get(f"http://127.0.0.1:{self.port}{path}", timeout=5)
        return None

    def is_ready(self) -> bool:
        assert not self.has_ended(), self.output
        answer = self.get("/readyz")
        return answer is not None and answer.status_code == 200

    def wait_until_ready(self) -> None:
        wait_until(self.is_ready, what="/readyz says 200")

    def part(self, word: str) -> psutil.Process | None:
        """The child process whose command line contains this word."""
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children():
                if word in " ".join(child.cmdline()):
                    return child
        return None

    def postmaster(self) -> psutil.Process | None:
        for process in processes_of(self.data_dir):
            with suppress(psutil.NoSuchProcess):
                if Path(process.exe()).name == "postgres" and "-D" in process.cmdline():
                    return process
        return None

    def stop(self) -> int:
        self.press_ctrl_c()
        return self.wait()
