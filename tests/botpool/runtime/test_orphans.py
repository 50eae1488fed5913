"""Real processes whose parent is killed, in the place of a supervisor or a cluster's sentinel."""

import signal
import subprocess
import sys

import psutil
import pytest

from tests.processes import ROOT, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part, on Linux")

SUPERVISOR = """
import sys, time
from botpool.runtime.process import ManagedProcess
from botpool.runtime.reaper import Reaper
reaper = Reaper()
idle = ManagedProcess(name="idle", command=[sys.executable, "-c", "import time; time.sleep(600)"])
idle.start(reaper)
print(idle.popen.pid, reaper._process.pid, flush=True)
time.sleep(600)
"""
SENTINEL = """
import multiprocessing, time
from botpool.runtime.orphans import end_forks_with_parent
end_forks_with_parent()
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=[600])
worker.start()
print(worker.pid, flush=True)
time.sleep(600)
"""
LATE = """
import os
from botpool.runtime.orphans import end_with
end_with(os.getppid() + 1)
print("still here")
"""


def start(program: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """It prints the ids of other processes once they run."""
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_process_ends_with_its_supervisor_if_the_reaper_was_killed_first():
    supervisor, (idle, reaper) = start(SUPERVISOR)
    reaper.kill()
    supervisor.kill()
    supervisor.communicate()

    wait_until(lambda: has_ended(idle), what="the process ended", timeout=20)


def test_a_fork_ends_with_the_process_that_forked_it():
    sentinel, (worker,) = start(SENTINEL)
    sentinel.kill()
    sentinel.wait()
    assert sentinel.stdout is not None
    sentinel.stdout.close()

    wait_until(lambda: has_ended(worker), what="the fork ended", timeout=20)


def test_a_process_whose_parent_was_already_gone_ends_at_once():
    late = subprocess.run(
        [sys.executable, "-c", LATE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (late.returncode, late.stdout, late.stderr) == (-signal.SIGKILL, "", "")
