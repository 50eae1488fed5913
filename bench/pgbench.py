"""pgbench on the same server: a reference that no Python code can beat."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from botpool.runtime.postgres.server import binaries


@dataclass(frozen=True)
class Speed:
    cycles_per_second: float
    p50_ms: float
    p99_ms: float


def pgbench(script: str, *, clients: int, seconds: int, **variables: int) -> Speed:
    database = settings.DATABASES["default"]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "script.sql")
        file.write_text(script)
        log = Path(directory, "log")
        where = ["-h", database["HOST"], "-p", database["PORT"], "-U", database["USER"]]
        defined = [f"-D{name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            [
                binaries() / "pgbench", "-n", "-M", "simple", "-f", file, "-c", str(clients),
                "-j", str(min(clients, 2)), "-T", str(seconds), "-l", f"--log-prefix={log}",
                "--max-tries=10", *defined, *where, database["NAME"],
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"pgbench failed: {done.stderr[-2000:]}")
        return _speed(done.stdout, directory)


def _speed(report: str, directory: str) -> Speed:
    found = re.search(r"tps = ([\d.]+)", report)
    assert found is not None, report
    micros = sorted(
        int(line.split()[2])
        for file in Path(directory).glob("log.*")
        for line in file.read_text().splitlines()
        if line.split()[2].isdigit()
    )
    return Speed(float(found[1]), share_of(micros, 0.5) / 1000, share_of(micros, 0.99) / 1000)


def share_of(values: Sequence[float], share: float) -> float:
    """The value below which this share of the sorted values lies."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")
