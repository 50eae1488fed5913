import os
import re
import signal
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connections, transaction

from botpool.runtime.first_start import box, make_operator, migrate, one_start_at_a_time
from botpool.runtime.ports import PortNotFree, check_port, in_url, reachable, serves_http
from botpool.runtime.postgres import server as postgres
from botpool.runtime.postgres.file_locks import open_lock, try_lock, wait_for
from botpool.runtime.process import ManagedProcess
from botpool.runtime.shared_environment import LOCK, environment_shared
from botpool.runtime.simulator import SimulatedCoolify
from botpool.runtime.supervisor import Supervisor
from botpool.runtime.watchdog import WorkerWatchdog
from botpool.runtime.web import configuration
from botpool.runtime.worker import watched_worker

PATIENCE_WITH_LAST_START = 3.0
PAUSE_BETWEEN_REVIVALS = 5.0
PAUSE_BETWEEN_PROBES = 0.5


class Command(BaseCommand):
    help = (
        "Start all of Botpool in the foreground: PostgreSQL (unless DATABASE_URL names one), a "
        "simulated Coolify (unless COOLIFY_API_URL names a real one), worker, ticker and web "
        "server. A process that dies is restarted. Ctrl-C or SIGTERM stops everything; a second "
        "one kills everything at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host", type=_host, default="127.0.0.1", help="address of the web server"
        )
        parser.add_argument(
            "--port", type=_port, default=8000, help="port of the web server (default: 8000)"
        )
        parser.add_argument("--workers", type=_positive, help="tasks at a time (default: 10)")
        parser.add_argument("--no-simulator", action="store_true", help="do not simulate Coolify")
        parser.add_argument("--no-demo", action="store_true", help="send no demo bots")
        parser.add_argument(
            "--speed",
            type=_speed,
            default=20.0,
            help="how many times faster than a real Coolify the simulator runs (default: 20)",
        )
        parser.add_argument(
            "--servers", type=_positive, default=2, help="simulated servers (default: 2)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["no_simulator"] and not os.environ.get("COOLIFY_API_URL"):
            raise CommandError(
                "--no-simulator needs a real Coolify: set COOLIFY_API_URL to its address "
                "(https://…/api/v1), or omit the option"
            )
        # Until the supervisor takes over, SIGTERM works like Ctrl-C.
        self.interruption = _Interruption()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.interruption)
        try:
            with ExitStack() as stack:
                lock = stack.enter_context(_data_dir_locked())
                check_port(host=options["host"], port=options["port"])
                self._run(options, stack=stack, lock=lock)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except (postgres.PostgresError, PortNotFree) as error:
            raise CommandError(str(error)) from error
        except Error as error:
            raise CommandError(f"PostgreSQL: {str(error).strip().splitlines()[0]}") from error

    def _run(self, options: dict[str, Any], *, stack: ExitStack, lock: int) -> None:
        server = None
        if settings.EMBEDDED_POSTGRES:
            server = stack.enter_context(postgres.running(settings.DATA_DIR))
        self._prepare_database()
        watchdog = stack.enter_context(closing(WorkerWatchdog()))
        simulator = self._simulator(options)
        if simulator:
            stack.callback(simulator.close)
            simulator.write_address()
            stack.callback(simulator.forget_address)
        chosen = _environment(options, simulator=None)
        stack.enter_context(environment_shared(settings.DATA_DIR, chosen))
        processes = _processes(options, simulator=simulator, watchdog=watchdog)
        supervisor = Supervisor(processes, keep_open=lock)
        supervisor.housekeeping = _Housekeeping(supervisor, server=server, options=options)
        self.interruption.check()
        supervisor.run()

    def _prepare_database(self) -> None:
        with one_start_at_a_time():
            migrate()
            self._show_new_operator()
        connections.close_all()

    @transaction.atomic
    def _show_new_operator(self) -> None:
        """Show the account before its commit: a kill in between would hide it for ever."""
        if account := make_operator():
            title = "First start. Write this down, it is shown only once:"
            self.stdout.write(box(title, account))
            self.stdout.flush()

    def _simulator(self, options: dict[str, Any]) -> SimulatedCoolify | None:
        wanted = not options["no_simulator"] and not os.environ.get("COOLIFY_API_URL")
        if not wanted:
            return None
        return SimulatedCoolify(speed=options["speed"], servers=options["servers"])


class _Interruption:
    """The handler of signals during the start. Python ignores an exception that is raised in a
    finalizer, so it also remembers that a signal came."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        if self.came:
            raise KeyboardInterrupt


class _Housekeeping:
    """Revives PostgreSQL, and announces the address once the web server answers."""

    def __init__(
        self, supervisor: Supervisor, *, server: postgres.Server | None, options: dict[str, Any]
    ) -> None:
        self.supervisor = supervisor
        self.server = server
        self.host, self.port = options["host"], options["port"]
        self.announced = False
        self.next_revival = 0.0
        self.next_probe = 0.0

    def __call__(self) -> None:
        if self.server and self.server.is_gone() and time.monotonic() >= self.next_revival:
            self._revive(self.server)
        if not self.announced and time.monotonic() >= self.next_probe:
            self._announce_address()

    def _announce_address(self) -> None:
        self.announced = serves_http(host=self.host, port=self.port)
        self.next_probe = time.monotonic() + PAUSE_BETWEEN_PROBES
        if self.announced:
            address = _address(self.host, self.port)
            self.supervisor.say(f"Botpool is at {address}/ (Ctrl-C stops it)")

    def _revive(self, server: postgres.Server) -> None:
        self.supervisor.say("PostgreSQL is gone: starting it again")
        try:
            server.revive()
        except postgres.PostgresError as error:
            self.supervisor.say(str(error))
            self.next_revival = time.monotonic() + PAUSE_BETWEEN_REVIVALS


@contextmanager
def _data_dir_locked() -> Iterator[int]:
    """Lock the data directory. The reaper of a killed `up` releases it when all has ended."""
    try:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        lock = open_lock(settings.DATA_DIR / LOCK)
    except OSError as error:
        raise CommandError(f"Cannot use {error.filename}: {error.strerror}") from error
    try:
        if not wait_for(lambda: try_lock(lock), timeout=PATIENCE_WITH_LAST_START):
            raise CommandError(f"Botpool already runs in {settings.DATA_DIR} (BOTPOOL_DATA_DIR)")
        yield lock
    finally:
        os.close(lock)


def _processes(
    options: dict[str, Any], *, simulator: SimulatedCoolify | None, watchdog: WorkerWatchdog
) -> list[ManagedProcess]:
    environment = _environment(options, simulator=simulator)
    processes = [simulator.process()] if simulator else []
    processes += [
        _web(options, environment=environment),
        # A burst of requests is answered first.
        watched_worker(watchdog, environment=environment, gives_way=True),
        ManagedProcess(
            name="ticker", command=_manage("ticker"), environment=environment, gives_way=True
        ),
    ]
    if simulator and not options["no_demo"]:
        endless = _manage("demo", "--bots", "0")
        processes.append(ManagedProcess(name="demo", command=endless, environment=environment))
    return processes


def _environment(options: dict[str, Any], *, simulator: SimulatedCoolify | None) -> dict[str, str]:
    environment = simulator.environment if simulator else {}
    if not os.environ.get("BOTPOOL_PUBLIC_URL"):
        environment["BOTPOOL_PUBLIC_URL"] = _address(options["host"], options["port"])
    if options["workers"]:
        environment["WORKERS"] = str(options["workers"])
    return environment


def _web(options: dict[str, Any], *, environment: dict[str, str]) -> ManagedProcess:
    gunicorn = [sys.executable, "-m", "gunicorn", "botpool.wsgi:application"]
    gunicorn += ["--config", f"python:{configuration.__name__}"]
    gunicorn += ["--bind", f"{in_url(options['host'])}:{options['port']}"]
    gunicorn += ["--graceful-timeout", "5", "--chdir", str(settings.BASE_DIR)]
    return ManagedProcess(name="web", command=gunicorn, environment=environment)


def _manage(*command: str) -> list[str]:
    return [sys.executable, str(settings.BASE_DIR / "manage.py"), *command]


def _address(host: str, port: int) -> str:
    return f"http://{in_url(reachable(host))}:{port}"


def _host(text: str) -> str:
    if not re.fullmatch(r"[\w.:%-]{0,253}", text):
        raise ArgumentTypeError(f"{text!r} is not a host name or an IP address")
    return text


def _port(text: str) -> int:
    return _number(text, high=65_535)


def _positive(text: str) -> int:
    return _number(text, high=64)


def _number(text: str, *, high: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= high:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 to {high}")
    return int(text)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= 10_000:
        raise ArgumentTypeError(f"{text!r} is not a number above 0 and up to 10000")
    return speed
