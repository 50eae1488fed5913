"""Real Redis and PgBouncer servers, if they are installed."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.processes import free_port, wait_until

PGBOUNCER = """
[databases]
botpool = host={host} port={port} dbname=botpool user=botpool
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {users}
admin_users = botpool
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
"""


def program(name: str) -> str:
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if not found:
        pytest.skip(f"{name} is not installed (apt-get install {name})")
    return found


@contextmanager
def redis() -> Iterator[str]:
    port = free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with _process([program("redis-server"), *words], port=port):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def pgbouncer(*, host: str, port: str, size: int) -> Iterator[str]:
    """PgBouncer in transaction mode, with at most `size` connections to PostgreSQL."""
    path = program("pgbouncer")
    listen = free_port()
    with tempfile.TemporaryDirectory(prefix="botpool-pgbouncer-") as home:
        Path(home).chmod(0o755)
        users = Path(home) / "users.txt"
        users.write_text('"botpool" ""\n')
        conf = Path(home) / "pgbouncer.ini"
        conf.write_text(
            PGBOUNCER.format(host=host, port=port, listen=listen, users=users, size=size)
        )
        with _process([path, str(conf)], port=listen, user=_user()):
            yield f"postgres://botpool@127.0.0.1:{listen}/botpool"


def servers_of(url: str) -> int:
    """The number of connections that PgBouncer has to PostgreSQL."""
    admin = url.removesuffix("/botpool") + "/pgbouncer"
    with closing(psycopg.connect(admin, autocommit=True)) as console:
        return len(console.execute("SHOW SERVERS").fetchall())


def _user() -> str | None:
    """PgBouncer refuses to run as root; the embedded PostgreSQL accepts its own account only."""
    return "nobody" if os.geteuid() == 0 else None


@contextmanager
def _process(command: list[str], *, port: int, user: str | None = None) -> Iterator[None]:
    process = subprocess.Popen(
        command, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
    )
    try:
        wait_until(lambda: _listens(port), what=f"{command[0]} listens")
        yield
    finally:
        process.terminate()
        process.wait(30)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
