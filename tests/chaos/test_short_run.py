import subprocess
import sys

import pytest

from tests.processes import ROOT

SECONDS = 12


@pytest.mark.slow
@pytest.mark.timeout(290)
def test_a_short_run_has_no_violations():
    """With this seed PostgreSQL is killed, answers to starts are lost, stops are ignored,
    containers overlooked, the token is another team's and workers cannot reach the public address.
    `make chaos` is the long run."""
    words = ["--seed", "23966", "--minutes", str(SECONDS / 60)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
