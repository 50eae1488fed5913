"""`make matrix`: the core of the suite on each supported Python and PostgreSQL.

Each cell also serves bots with Redis as the broker, and behind PgBouncer. What is missing is
installed where that is possible; a cell that cannot be had says so and fails nothing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.processes import ROOT

PYTHONS = ("3.11", "3.13")
DEBIAN = "15"
# "18" is the wheel's, "15" the package of Debian 12.
POSTGRES = {"18": "", DEBIAN: f"/usr/lib/postgresql/{DEBIAN}/bin"}
CORE = ("core", "coolify/client", "coolify/budget", "bots", "queues", "slots", "pool", "api")
NEIGHBOURS = "tests/ops/test_neighbours.py"
# What a cell runs, and with which words.
COLUMNS = {
    "core": ["-m", "not slow", *(f"tests/{name}" for name in CORE)],
    "with Redis": ["-k", "redis", NEIGHBOURS],
    "with PgBouncer": ["-k", "pgbouncer", NEIGHBOURS],
}
VENVS = ROOT / ".venv-matrix"


@dataclass(frozen=True)
class Cell:
    python: str
    postgres: str
    column: str
    result: str
    failed: bool = False

    def __str__(self) -> str:
        return f"Python {self.python}, PostgreSQL {self.postgres}, {self.column}: {self.result}"


def main() -> int:
    options = _options()
    cells = []
    for cell in _cells(options):
        print(cell, flush=True)
        cells.append(cell)
    print("", *_table(cells), sep="\n")
    return int(any(cell.failed for cell in cells))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--postgres", action="append", choices=list(POSTGRES))
    parser.add_argument("--column", action="append", choices=list(COLUMNS))
    parser.add_argument("--jobs", default="4", help="processes of pytest")
    return parser.parse_args()


def _cells(options: argparse.Namespace) -> Iterator[Cell]:
    for python in options.python or PYTHONS:
        interpreter = _interpreter(python)
        for postgres in options.postgres or POSTGRES:
            available = _has_postgres(postgres)
            for column in options.column or COLUMNS:
                if interpreter is None or not available:
                    yield Cell(python, postgres, column, "not available here")
                else:
                    result, failed = _run(interpreter, postgres, column, jobs=options.jobs)
                    yield Cell(python, postgres, column, result, failed)


def _run(python: Path, postgres: str, column: str, *, jobs: str) -> tuple[str, bool]:
    begin = time.monotonic()
    words = ["-q", "--durations=25", "-n", jobs if column == "core" else "0", "--dist", "loadfile"]
    done = subprocess.run(
        [python, "-m", "pytest", *words, *COLUMNS[column]],
        cwd=ROOT,
        env={**os.environ, "TEST_POSTGRES": POSTGRES[postgres]},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n", flush=True)
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", done.stdout[-500:])
    return f"{', '.join(counts)} in {time.monotonic() - begin:.0f} s", done.returncode != 0


def _table(cells: list[Cell]) -> Iterator[str]:
    columns = list(dict.fromkeys(cell.column for cell in cells))
    yield f"| Python | PostgreSQL | {' | '.join(columns)} |"
    yield f"| {' | '.join(['---'] * (2 + len(columns)))} |"
    for python, postgres in dict.fromkeys((cell.python, cell.postgres) for cell in cells):
        found = [c.result for c in cells if (c.python, c.postgres) == (python, postgres)]
        yield f"| {python} | {postgres} | {' | '.join(found)} |"


# --- What the cells need -----------------------------------------------------------------------


def _interpreter(version: str) -> Path | None:
    """The interpreter of an environment with Botpool's development tools, made if need be."""
    if sys.version.startswith(f"{version}."):
        return Path(sys.executable)
    venv = VENVS / version
    done = venv / "installed"
    requirements = ROOT / "requirements-dev.txt"
    if not done.exists() or done.stat().st_mtime < requirements.stat().st_mtime:
        base = _base_python(version)
        if base is None:
            return None
        subprocess.run([base, "-m", "venv", venv], check=True)
        install = ["install", "--quiet", "--require-hashes", "-r", str(requirements)]
        subprocess.run([venv / "bin" / "pip", *install], check=True)
        done.touch()
    return venv / "bin" / "python"


def _base_python(version: str) -> str | None:
    found = _works(version)
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None and uv is not None:
        subprocess.run([uv, "python", "install", version], check=False)
        found = _works(version)
    return found


def _works(version: str) -> str | None:
    """A shim of pyenv may be there and lead nowhere, so each is tried."""
    homes = [Path.home() / ".pyenv" / "versions", Path.home() / ".local/share/uv/python"]
    places = [each for home in homes for each in home.glob(f"*{version}.*/bin/python3")]
    for place in [f"python{version}", *map(str, places)]:
        try:
            done = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.stdout.startswith(f"Python {version}."):
            return place
    return None


def _has_postgres(version: str) -> bool:
    binary = Path(POSTGRES[version]) / "postgres"
    if POSTGRES[version] and not binary.exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
        # No cluster of its own: the tests make theirs.
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        subprocess.run([*install, f"postgresql-{version}"], env=quiet, check=False)
    return not POSTGRES[version] or binary.exists()


if __name__ == "__main__":
    sys.exit(main())
