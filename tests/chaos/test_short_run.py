import subprocess
import sys

import pytest

from tests.processes import ROOT

SECONDS = 12


@pytest.mark.slow
@pytest.mark.timeout(290)
def test_a_short_chaos_loses_doubles_and_strands_nobody():
    """`make chaos SEED=… MINUTES=…` is the long one. In this one a node is paused and a worker
    killed, PostgreSQL is killed, answers to starts are lost, stops ignored and containers
    overlooked."""
    words = ["--seed", "78160", "--minutes", str(SECONDS / 60)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
