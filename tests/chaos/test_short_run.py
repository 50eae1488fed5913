import subprocess
import sys

import pytest

from tests.processes import ROOT

SECONDS = 12


@pytest.mark.slow
@pytest.mark.timeout(290)
def test_a_short_run_has_no_violations():
    """With this seed PostgreSQL fails over, is read-only and out of disk, answers to starts are
    lost, containers overlooked, a node is paused, a worker killed; a receiver of webhooks hangs.
    `make chaos` is the long run."""
    words = ["--seed", "10034", "--minutes", str(SECONDS / 60)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
