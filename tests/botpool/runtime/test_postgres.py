import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from botpool.runtime.postgres import server as postgres
from botpool.runtime.postgres.server import PostgresError, Server
from tests.processes import (
    ROOT,
    environment,
    new_data_dir,
    processes_of,
    wait_until,
    wait_until_nothing_is_left,
)


@pytest.fixture
def new_dir() -> Iterator[Path]:
    with new_data_dir() as directory:
        yield directory


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """A directory that was started before, because the first start is slow."""
    with new_data_dir() as directory:
        with postgres.running(directory, throw_away=True):
            pass
        yield directory


def connect(data_dir: Path) -> psycopg.Connection:
    where = postgres.connection_settings(data_dir)
    return psycopg.connect(
        host=where["HOST"],
        port=where["PORT"],
        user=where["USER"],
        dbname=where["NAME"],
        autocommit=True,
    )


def ask(data_dir: Path, sql: str) -> object:
    with connect(data_dir) as connection:
        row = connection.execute(sql).fetchone()
        return row[0] if row else None


def do(data_dir: Path, sql: str) -> None:
    with connect(data_dir) as connection:
        connection.execute(sql)


def postmaster(data_dir: Path) -> int:
    return int((Server(data_dir).cluster / "postmaster.pid").read_text().split()[0])


USER = """
import sys, time
from pathlib import Path
from botpool.runtime.postgres import server as postgres
with postgres.running(Path(sys.argv[1]), throw_away=True) as server:
    print((server.cluster / "postmaster.pid").read_text().split()[0], flush=True)
    sys.stdin.read()
"""


def start_user(data_dir: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(data_dir)],
        cwd=ROOT,
        env=environment(data_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_runs_postgresql_18_in_utc_and_survives_power_cuts(data_dir):
    with postgres.running(data_dir):
        assert ask(data_dir, "SELECT current_setting('server_version_num')::int / 10000") == 18
        assert ask(data_dir, "SELECT current_setting('timezone')") == "UTC"
        assert ask(data_dir, "SELECT current_setting('fsync')") == "on"
        assert ask(data_dir, "SELECT current_setting('listen_addresses')") == ""


def test_a_throw_away_server_does_not_sync_to_disk(data_dir):
    with postgres.running(data_dir, throw_away=True):
        assert ask(data_dir, "SELECT current_setting('fsync')") == "off"


def test_connection_settings_create_nothing(tmp_path):
    settings = postgres.connection_settings(tmp_path / "nowhere")

    assert settings["HOST"].startswith("/")
    assert not (tmp_path / "nowhere").exists()


def test_data_survives_a_restart(data_dir):
    with postgres.running(data_dir, throw_away=True):
        do(data_dir, "CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")
    with postgres.running(data_dir, throw_away=True):
        assert ask(data_dir, "SELECT answer FROM kept") == 42


def test_only_its_own_account_can_use_the_socket(data_dir):
    with postgres.running(data_dir, throw_away=True):
        assert Server(data_dir).socket_dir.stat().st_mode & 0o077 == 0


def test_the_last_user_stops_it(data_dir):
    with postgres.running(data_dir, throw_away=True) as server:
        with postgres.running(data_dir, throw_away=True):
            assert ask(data_dir, "SELECT 1") == 1
        assert ask(data_dir, "SELECT 1") == 1
    assert server.is_gone()


@pytest.mark.slow
def test_five_simultaneous_starts_share_one_server(new_dir):
    users = [start_user(new_dir) for _ in range(5)]
    servers = {user.stdout.readline().strip() for user in users if user.stdout}
    for user in users:
        user.communicate()

    assert len(servers) == 1
    assert Server(new_dir).is_gone()


@pytest.mark.slow
def test_it_stops_when_its_only_user_is_killed(data_dir):
    with start_user(data_dir) as user:
        assert user.stdout
        user.stdout.readline()
        assert len(processes_of(data_dir)) > 1
        user.kill()

    assert wait_until_nothing_is_left(data_dir) == []


@pytest.mark.slow
def test_it_recovers_after_the_server_was_killed(data_dir):
    with postgres.running(data_dir):
        do(data_dir, "CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")
        os.kill(postmaster(data_dir), signal.SIGKILL)
        with postgres.running(data_dir):
            assert ask(data_dir, "SELECT answer FROM kept") == 42


def test_a_user_revives_a_server_that_was_killed(data_dir):
    with postgres.running(data_dir) as server:
        os.kill(postmaster(data_dir), signal.SIGKILL)
        wait_until(server.is_gone, what="the server's processes end")
        server.revive()
        assert ask(data_dir, "SELECT 1") == 1


def test_it_ignores_a_stale_pid_file(data_dir):
    with postgres.running(data_dir, throw_away=True):
        pass
    with subprocess.Popen(["sleep", "60"]) as unrelated:
        pid_file = Server(data_dir).cluster / "postmaster.pid"
        pid_file.write_text(f"{unrelated.pid}\n{pid_file.parent}\n1\n5432\n/tmp\n\n0 0\nready\n")
        with postgres.running(data_dir, throw_away=True):
            assert ask(data_dir, "SELECT 1") == 1
        assert unrelated.poll() is None
        unrelated.kill()


def test_it_says_so_when_it_waits_for_a_server_that_does_not_answer(data_dir, capfd, monkeypatch):
    with postgres.running(data_dir, throw_away=True) as server:
        with monkeypatch.context() as patched:
            patched.setattr(postgres, "QUIET_WAIT", 0.1)
            patched.setattr(postgres, "START_TIMEOUT", 0.1)
            patched.setattr(Server, "accepts_connections", lambda server: False)
            with pytest.raises(PostgresError, match=r"uses .* and does not answer"):
                server.start(throw_away=True)
        assert server.accepts_connections()
    assert "waiting up to 0 s for the PostgreSQL in" in capfd.readouterr().err


@pytest.mark.parametrize("name", postgres.LOCKS)
def test_a_file_in_its_way_is_reported_in_one_line(new_dir, name):
    (new_dir / "postgres" / name).mkdir(parents=True)
    with (
        pytest.raises(PostgresError, match=rf"Cannot use .*{name}: Is a directory"),
        postgres.running(new_dir, throw_away=True),
    ):
        pass


def test_a_full_disk_at_the_first_start_is_named_and_left_clean(new_dir):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a small file system")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(new_dir)]).returncode:
        pytest.skip("needs the right to mount, for a small file system")
    try:
        with (
            pytest.raises(PostgresError, match="No space left on device"),
            postgres.running(new_dir, throw_away=True),
        ):
            pass
        assert not list((new_dir / "postgres").glob("new-*"))
        assert wait_until_nothing_is_left(new_dir) == []
    finally:
        subprocess.run(["umount", "--lazy", str(new_dir)], check=True)


def test_it_discards_an_interrupted_first_start(new_dir):
    half = new_dir / "postgres" / "new-half"
    half.mkdir(parents=True)
    (new_dir / "postgres").chmod(0o711)
    (half / "PG_VERSION").write_text("18\n")

    with postgres.running(new_dir, throw_away=True):
        assert ask(new_dir, "SELECT 1") == 1
    assert not half.exists()


def test_it_rotates_a_large_log(data_dir):
    log = Server(data_dir).log
    with log.open("r+b") as file:
        file.truncate(postgres.LARGEST_LOG + 1)

    with postgres.running(data_dir, throw_away=True):
        assert log.stat().st_size < postgres.LARGEST_LOG


def test_a_long_path_gets_a_short_socket(new_dir):
    deep = new_dir / ("long" * 30)
    deep.mkdir()
    with postgres.running(deep, throw_away=True) as server:
        assert len(str(server.socket_dir)) < 60
        assert ask(deep, "SELECT 1") == 1
    server.socket_dir.rmdir()


def test_it_refuses_a_socket_directory_of_another_user(new_dir):
    deep = new_dir / ("long" * 30)
    deep.mkdir()
    trap = Server(deep).socket_dir
    trap.symlink_to(new_dir)
    try:
        with pytest.raises(PostgresError, match="belongs to another user"):
            postgres.running(deep, throw_away=True).__enter__()
    finally:
        trap.unlink()


def test_it_refuses_data_of_another_version(new_dir):
    cluster = Server(new_dir).cluster
    cluster.mkdir(parents=True)
    cluster.parent.chmod(0o711)
    (cluster / "PG_VERSION").write_text("15\n")
    with pytest.raises(PostgresError, match="PostgreSQL 15; Botpool needs 18"):
        postgres.running(new_dir).__enter__()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL under another account")
def test_it_names_a_directory_that_its_account_cannot_enter(new_dir):
    closed = new_dir / "closed"
    closed.mkdir(mode=0o700)
    inside = closed / "data"
    inside.mkdir()
    with pytest.raises(PostgresError, match=f"cannot enter {closed}: run chmod o.x {closed}"):
        postgres.running(inside).__enter__()


FORKING_USER = """
import os, sys
from pathlib import Path
from botpool.runtime.postgres import server as postgres
with postgres.running(Path(sys.argv[1]), throw_away=True) as server:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    print("gone" if server.is_gone() else "running")
"""


def test_a_forked_child_leaving_the_block_does_not_stop_the_server(data_dir):
    words = [sys.executable, "-c", FORKING_USER, str(data_dir)]
    done = subprocess.run(words, cwd=ROOT, env=environment(data_dir), capture_output=True)

    assert done.stdout == b"running\n"


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(data_dir):
    with postgres.running(data_dir, throw_away=True):
        assert os.getsid(postmaster(data_dir)) != os.getsid(0)
