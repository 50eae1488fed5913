"""Several nodes of Botpool around one PostgreSQL.

Each has a web server, a worker and a ticker, started by the script that the image uses.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg
import requests

from botpool.runtime.postgres import server as postgres
from coolify.simulator.simulator import Simulator
from tests.processes import ROOT, environment, free_port, new_data_dir, processes_of, wait_until
from tests.simulated_coolify import simulated_coolify

START = ROOT / "ops" / "start.sh"
PROCESSES = ("web", "worker", "ticker")
ENDED = "('DONE', 'FAILED', 'CANCELLED')"

# Short for tests. The limits that coordinate nodes keep their defaults.
QUICK = {
    "WATCH_INTERVAL": "300",
    "DEPLOY_POLL_INTERVAL": "500",
    "STOP_CONFIRM_AFTER": "500",
    "STOP_RETRY_AFTER": "3000",
    "COOLIFY_RATE_LIMIT": "100000",
    "WORKERS": "2",
    "WEB_PROCESSES": "1",
    "LOG_LEVEL": "WARNING",
}


@dataclass
class Node:
    """The processes of one host, which are found by its data directory."""

    data_dir: Path
    env: dict[str, str]
    prefix: tuple[str, ...] = ()
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *processes: str) -> None:
        log = (self.data_dir / "output").open("ab")
        for process in processes:
            self.started.append(
                subprocess.Popen(
                    [*self.prefix, str(START), process],
                    env={**self.env, "PYTHON": sys.executable},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        log.close()

    def kill(self) -> None:
        """Kill everything at once, like a power cut."""
        found = processes_of(self.data_dir)
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        # One of them may have forked while they were listed.
        while left := [*found, *processes_of(self.data_dir)]:
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            found = []
        for child in self.started:
            child.wait(30)

    def stop(self) -> None:
        for child in self.started:
            child.terminate()
        for child in self.started:
            child.wait(60)

    def healthy(self, process: str) -> bool:
        done = subprocess.run(
            [*self.prefix, str(START), "healthy", process],
            env={**self.env, "PYTHON": sys.executable},
            capture_output=True,
            timeout=60,
        )
        return done.returncode == 0

    @property
    def output(self) -> str:
        return (self.data_dir / "output").read_text(errors="replace")


class Cluster:
    def __init__(self, *, data_dir: Path, simulator: Simulator, **variables: str) -> None:
        found = postgres.connection_settings(data_dir)
        self.socket_dir, self.port_of_postgres = found["HOST"], found["PORT"]
        self.database = (
            f"postgres://botpool@{quote(found['HOST'], safe='')}:{found['PORT']}/botpool"
        )
        self.simulator = simulator
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.variables = {
            "DATABASE_URL": self.database,
            "SECRET_KEY": "the-same-for-every-node-of-this-test-" * 2,
            "COOLIFY_WEBHOOK_SECRET": "the-webhook-secret-of-every-node-of-this-test",
            "COOLIFY_API_URL": simulator.api_url,
            "COOLIFY_API_TOKEN": simulator.settings.tokens[0].plain,
            "COOLIFY_PROJECT_UUID": "simulated-project",
            "COOLIFY_SERVER_UUID": simulator.settings.servers[0],
            "COOLIFY_SIMULATED": "true",
            "BOTPOOL_PUBLIC_URL": self.url,
            "WEB_BIND": f"127.0.0.1:{self.port}",
            # The kernel distributes connections among the web servers that are alive.
            "GUNICORN_CMD_ARGS": "--reuse-port",
            **QUICK,
            **variables,
        }

    @contextmanager
    def node(
        self, *processes: str, prefix: tuple[str, ...] = (), **variables: str
    ) -> Iterator[Node]:
        with new_data_dir() as data_dir:
            env = environment(data_dir) | self.variables | variables
            node = Node(data_dir, env, prefix)
            node.start(*(processes or PROCESSES))
            try:
                yield node
            finally:
                node.stop()

    def manage(self, *words: str) -> str:
        with new_data_dir() as data_dir:
            done = subprocess.run(
                [str(START), *words],
                env={**environment(data_dir), **self.variables, "PYTHON": sys.executable},
                capture_output=True,
                text=True,
                timeout=120,
            )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, sql: str) -> Any:
        """The first column of the first row."""
        connection = {"host": self.socket_dir, "port": self.port_of_postgres}
        with psycopg.connect(dbname="botpool", user="botpool", autocommit=True, **connection) as c:
            row = c.execute(sql).fetchone()
        return row and row[0]

    def is_ready(self) -> bool:
        with suppress(requests.RequestException):
            return requests.get(f"{self.url}/readyz", timeout=5).status_code == 200
        return False

    def wait_until_ready(self) -> None:
        wait_until(self.is_ready, what="/readyz says 200")

    def send_bots(self, count: int, *, key: str, meeting_seconds: float) -> None:
        simulate = {"plan": "normal", "meetingSeconds": meeting_seconds}
        body = {
            "meetingUrl": "https://meet.google.com/abc-defg-hij",
            "config": {"simulate": simulate},
        }
        headers = {"Authorization": f"Bearer {key}"}
        for _ in range(count):
            answer = requests.post(
                f"{self.url}/api/v1/bots", json=body, headers=headers, timeout=30
            )
            assert answer.status_code == 201, answer.text

    def connections(self) -> int:
        """The nodes' connections, without the one of this query."""
        mine = "datname = current_database() AND pid <> pg_backend_pid()"
        return int(self.ask(f"SELECT count(*) FROM pg_stat_activity WHERE {mine}"))

    def ended(self) -> int:
        return int(self.ask(f"SELECT count(*) FROM bots_bot WHERE status IN {ENDED}"))


@contextmanager
def cluster(
    *, speed: float = 100, coolify_host: str = "127.0.0.1", **variables: str
) -> Iterator[Cluster]:
    """A migrated PostgreSQL and a simulated Coolify, without nodes."""
    with ExitStack() as stack:
        data_dir = stack.enter_context(new_data_dir())
        stack.enter_context(postgres.running(data_dir, throw_away=True))
        simulator = stack.enter_context(
            simulated_coolify(speed=speed, concurrent_builds=8, host=coolify_host)
        )
        made = Cluster(data_dir=data_dir, simulator=simulator, **variables)
        made.manage("migrate")
        yield made
