import subprocess
import sys

import pytest

from tests.processes import ROOT

SECONDS = 12


@pytest.mark.slow
@pytest.mark.timeout(290)
def test_a_short_run_has_no_violations():
    """With this seed a node is paused, a worker and PostgreSQL are killed, answers to starts are
    lost, stops are ignored and containers overlooked. `make chaos` is the long run."""
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
