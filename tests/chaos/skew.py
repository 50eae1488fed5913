"""Wrong clocks: a small C library, preloaded into a host's processes."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("skew.c")


def with_skewed_clock(directory: Path, *, seconds: int) -> dict[str, str]:
    """Environment variables for such a process; empty if there is no C compiler."""
    library = _library(directory)
    return {"LD_PRELOAD": str(library), "SKEW_SECONDS": str(seconds)} if library else {}


@cache
def _library(directory: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = directory / "skew.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library
