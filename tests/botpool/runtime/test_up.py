import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import requests
from django.core.management import call_command

from botpool.management.commands import up as up_command
from botpool.runtime.ports import PortNotFree, check_port
from botpool.runtime.process import NICENESS
from tests.processes import (
    ROOT,
    Program,
    Up,
    environment,
    new_data_dir,
    wait_until,
    wait_until_nothing_is_left,
)

pytestmark = pytest.mark.slow

# The limit also covers a cluster's start, which is slow on a busy machine.
QUICK = {"WORKER_SILENCE_LIMIT": "10000", "WORKER_HEARTBEAT_INTERVAL": "500"}


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with new_data_dir() as directory:
        program = Up(directory, **QUICK, MAX_POOL_SIZE="5")
        program.wait_until_ready()
        yield program
        program.stop()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with new_data_dir() as directory:
        yield directory


# --- While it runs ---


def test_it_announces_its_address(up):
    line = f"Botpool is at http://127.0.0.1:{up.port}/"
    wait_until(lambda: line in up.output, what="the address")


def test_the_first_start_shows_the_operator_account(up):
    wait_until(lambda: "│ password  " in up.output, what="the password")
    assert "│ name      operator" in up.output


def test_only_its_owner_can_read_the_simulators_address(up):
    file = up.data_dir / "simulator.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_commands_in_other_shells_share_its_environment(up):
    status = Program("pool_status", "--json", env=environment(up.data_dir))
    assert status.wait() == 0, status.output
    assert json.loads(status.output)["pools"]["zoom"]["maximum"] == 5
    assert stat.S_IMODE((up.data_dir / "up.json").stat().st_mode) == 0o600


def test_commands_in_other_shells_know_its_address(up):
    up.wait_until_ready()
    doctor = Program("doctor", env=environment(up.data_dir))
    doctor.wait()
    assert f"ok     public address: http://127.0.0.1:{up.port} answers" in doctor.lines


def test_a_second_up_in_the_same_directory_is_refused(up):
    second = Up(up.data_dir)

    assert second.wait() == 1
    assert second.output.endswith(f"Botpool already runs in {up.data_dir} (BOTPOOL_DATA_DIR)")


def test_a_process_that_dies_is_restarted(up):
    wait_until(lambda: up.part("ticker"), what="a ticker")
    ticker = up.part("ticker")
    ticker.kill()

    wait_until(lambda: up.part("ticker") not in (None, ticker), what="a new ticker")
    wait_until(lambda: "ticker ended (signal SIGKILL)" in up.output, what="the notice")
    up.wait_until_ready()


def test_no_other_program_gets_the_simulators_port_while_it_restarts(up):
    wait_until(lambda: up.part("coolify_simulator"), what="a simulator")
    address = json.loads((up.data_dir / "simulator.json").read_text())
    up.part("coolify_simulator").kill()

    port = int(address["url"].rpartition(":")[2].partition("/")[0])
    with pytest.raises(PortNotFree):
        check_port(host="127.0.0.1", port=port)
    token = {"Authorization": f"Bearer {address['token']}"}
    assert requests.get(f"{address['url']}/projects", headers=token, timeout=60).ok


def test_postgresql_is_restarted_when_it_is_killed(up):
    up.postmaster().kill()

    wait_until(lambda: "PostgreSQL is gone: starting it again" in up.output, what="the notice")
    up.wait_until_ready()


def test_a_frozen_cluster_is_replaced_and_waiting_tasks_run(up, tmp_path):
    main, (*_, monitor, pusher) = whole_cluster(up)
    task = f"'os.mkdir', {str(tmp_path / 'ran')!r}"
    kill_until_replaced(up, main, keep=[monitor, pusher], meanwhile=lambda: send_task(up, task))

    wait_until((tmp_path / "ran").exists, what="the task ran")
    wait_until(lambda: not is_alive(main), what="the old cluster is gone")
    up.wait_until_ready()


def test_a_cluster_whose_monitor_was_killed_is_replaced(up):
    main, (*workers, _, pusher) = whole_cluster(up)
    kill_until_replaced(up, main, keep=[*workers, pusher])

    up.wait_until_ready()


def test_a_killed_worker_leaves_no_process_behind(up):
    worker = Program("worker", env=environment(up.data_dir, **QUICK))
    parent = psutil.Process(worker.process.pid)
    wait_until(lambda: len(parent.children(recursive=True)) > 5, what="its cluster runs")
    started = parent.children(recursive=True)
    worker.kill()

    wait_until(lambda: not any(is_alive(process) for process in started), what="all are gone")


def test_a_cluster_ends_by_itself_when_supervisor_and_reaper_are_killed(up):
    worker = Program("worker", env=environment(up.data_dir, **QUICK))
    parent = psutil.Process(worker.process.pid)
    wait_until(lambda: len(parent.children(recursive=True)) > 5, what="its cluster runs")
    parent.suspend()
    started = parent.children(recursive=True)
    [reaper] = reapers_of(parent.pid)
    reaper.kill()
    worker.kill()

    wait_until(lambda: not any(is_alive(process) for process in started), what="all are gone")


def reapers_of(supervisor: int) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(supervisor).children():
        with suppress(psutil.NoSuchProcess):
            if is_alive(child) and "reaper.py" in " ".join(child.cmdline()):
                found.append(child)
    return found


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def whole_cluster(up: Up) -> tuple[psutil.Process, list[psutil.Process]]:
    """A cluster's main process, and its two workers, monitor and pusher in order of start."""
    found: list[tuple[psutil.Process, list[psutil.Process]]] = []

    def cluster_is_complete() -> bool:
        main = up.part("qcluster")
        children = sentinels_children(main) if main else []
        if main and len(children) == 4:
            found.append((main, children))
        return bool(found)

    up.wait_until_ready()
    wait_until(cluster_is_complete, what="a cluster")
    return found[0]


def sentinels_children(main: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess, ValueError):
        [sentinel] = main.children()
        return sorted(sentinel.children(), key=lambda child: (child.create_time(), child.pid))
    return []


def kill_until_replaced(
    up: Up,
    main: psutil.Process,
    *,
    keep: list[psutil.Process],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Kill the other processes, and those that replace them, until the cluster is replaced.

    Only killing an idle process freezes the cluster, because it holds the lock of its queue. The
    reason of the replacement depends on timing; test_worker.py tests each reason.
    """
    lines_before = len(up.lines)

    def hit_and_replaced() -> bool:
        for child in sentinels_children(main):
            if child not in keep:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        return any("replacing worker: " in line for line in up.lines[lines_before:])

    hit_and_replaced()
    meanwhile()
    wait_until(hit_and_replaced, what="the notice that the cluster is replaced")


def send_task(up: Up, arguments: str) -> None:
    code = f"from django_q.tasks import async_task; async_task({arguments})"
    program = Program("shell", "-v", "0", "-c", code, env=environment(up.data_dir))
    assert program.wait() == 0, program.output


# --- Start and stop ---


def test_a_port_in_use_is_reported_and_nothing_starts(data_dir):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = Program("up", "--port", str(port), env=environment(data_dir))

        assert program.wait() == 1
        assert program.lines == [
            f"CommandError: Cannot listen on 127.0.0.1:{port}: Address already in use"
        ]
    assert not (data_dir / "postgres").exists()


def test_an_invalid_port_is_refused(data_dir):
    program = Program("up", "--port", "99999", env=environment(data_dir))

    assert program.wait() == 2
    assert program.output.endswith("'99999' is not a whole number from 1 to 65535")


@pytest.mark.parametrize("host", ["a\nb", "a b", "h" * 300])
def test_an_invalid_host_is_refused(data_dir, host):
    program = Program("up", "--host", host, env=environment(data_dir))

    assert program.wait() == 2
    assert program.lines[-1].endswith("is not a host name or an IP address")


def test_a_host_that_cannot_be_a_name_is_reported_in_one_line():
    with pytest.raises(PortNotFree, match=r"Cannot listen on a\.\.b:8000: "):
        check_port(host="a..b", port=8000)


def test_a_lock_that_cannot_be_opened_is_reported_in_one_line(data_dir):
    (data_dir / "up.lock").mkdir()
    program = Program("up", env=environment(data_dir))

    assert program.wait() == 1
    assert program.lines == [f"CommandError: Cannot use {data_dir / 'up.lock'}: Is a directory"]


def test_a_signal_that_python_swallows_still_ends_the_start(data_dir, monkeypatch):
    """It comes while a finalizer runs, where exceptions are ignored."""

    class Resource:
        pass

    def prepare(self):
        weakref.finalize(resource := Resource(), os.kill, os.getpid(), signal.SIGTERM)
        del resource

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(up_command.Command, "_prepare_database", prepare)
    monkeypatch.setattr(up_command.Supervisor, "run", lambda supervisor: pytest.fail("It started"))
    monkeypatch.setattr("sys.unraisablehook", lambda *ignored: None)
    try:
        with pytest.raises(SystemExit) as end:
            call_command("up", "--port", "18999")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert end.value.code == 130


def test_without_a_simulator_it_requires_coolifys_address(data_dir):
    program = Program("up", "--no-simulator", env=environment(data_dir))

    assert program.wait() == 1
    [line] = program.lines
    assert "set COOLIFY_API_URL" in line
    assert not (data_dir / "postgres").exists()


def test_ctrl_c_stops_everything(data_dir):
    up = Up(data_dir)
    wait_until(lambda: up.part("qcluster") and up.part("gunicorn"), what="its processes run")
    up.press_ctrl_c()

    assert up.wait() == 0
    assert wait_until_nothing_is_left(data_dir) == []
    assert not (data_dir / "simulator.json").exists()
    assert not (data_dir / "up.json").exists()


def test_kill_9_leaves_no_process_behind_and_the_next_start_works(data_dir):
    chance = random.Random(20)
    for _ in range(3):
        up = Up(data_dir)
        time.sleep(chance.uniform(0.5, 5.0))
        postmaster = up.postmaster()
        if postmaster and chance.random() < 0.5:
            postmaster.kill()
            time.sleep(chance.uniform(0.0, 0.5))
        up.kill()

    assert wait_until_nothing_is_left(data_dir) == []
    up = Up(data_dir)
    up.wait_until_ready()
    assert up.stop() == 0


# --- The supervisor alone ---

STUBBORN = """
import sys, time
from botpool.runtime import supervisor
from botpool.runtime.process import ManagedProcess
supervisor.GRACE = 1.0
deaf = "trap '' TERM; sleep 1000 & echo ready; wait; sleep 1000"
process = ManagedProcess(name="deaf", command=["/bin/sh", "-c", deaf])
supervisor.Supervisor([process]).run()
"""


def start_stubborn(data_dir: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN],
        cwd=ROOT,
        env=environment(data_dir),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "deaf    | ready\n"
    return process


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(data_dir):
    with start_stubborn(data_dir) as process:
        process.terminate()
        assert process.wait(30) == 0

    assert wait_until_nothing_is_left(data_dir) == []


def test_a_killed_reaper_is_replaced(data_dir):
    with start_stubborn(data_dir) as process:
        [reaper] = reapers_of(process.pid)
        reaper.kill()
        wait_until(lambda: reapers_of(process.pid) not in ([], [reaper]), what="a new reaper")
        time.sleep(1)  # until the supervisor has reported its groups
        process.kill()

    assert wait_until_nothing_is_left(data_dir) == []


POLITE = """
from botpool.runtime.process import ManagedProcess
from botpool.runtime.supervisor import Supervisor
tell = ["/bin/sh", "-c", "nice; sleep 100"]
Supervisor([ManagedProcess(name="polite", command=tell, gives_way=True)]).run()
"""


def test_a_process_can_give_way_to_the_others(data_dir):
    words = [sys.executable, "-c", POLITE]
    env = environment(data_dir)
    with subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == f"polite  | {NICENESS}\n".encode()
        process.terminate()
        process.wait(30)


CHATTY = """
from botpool.runtime.process import ManagedProcess
from botpool.runtime.supervisor import Supervisor
chat = "while true; do echo chat; sleep 0.1; done"
Supervisor([ManagedProcess(name="chatty", command=["/bin/sh", "-c", chat])]).run()
"""


def test_it_ends_when_its_output_is_closed(data_dir):
    words = [sys.executable, "-c", CHATTY]
    env = environment(data_dir)
    with subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"chatty  | chat\n"
        process.stdout.close()
        process.wait(30)

    assert wait_until_nothing_is_left(data_dir) == []
