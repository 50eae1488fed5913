"""A pytest plugin (-p tests.embedded) that gives the tests their own throw-away PostgreSQL.

A conftest.py would be too late: Django's settings are read before it. TEST_POSTGRES names the
directory with the binaries of another PostgreSQL than the wheel's.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from botpool.runtime.postgres import server as postgres

# In parallel, the files that take longest come first: at the end, one of them would keep a single
# process busy while the others have nothing left to do.
LONGEST = (
    "chaos/test_short_run.py",
    "ops/test_hosts.py",
    "ops/test_power_cuts.py",
    "ops/test_two_nodes.py",
    "ops/test_neighbours.py",
    "api/test_schemathesis.py",
    "pool/controller/test_faults.py",
    "pool/test_queue_processes.py",
    "pool/test_cases_on_simulator.py",
    "browser/test_accessibility.py",
    "botpool/runtime/test_up.py",
    "examples/test_check_bot.py",
)


def _use(binaries: Path) -> None:
    done = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True)
    postgres.VERSION = done.stdout.split()[2].partition(".")[0]
    postgres.LOCALE = ("--locale=C.UTF-8",)  # older ones have no builtin provider
    postgres.binaries = lambda: binaries


if os.environ.get("TEST_POSTGRES"):
    _use(Path(os.environ["TEST_POSTGRES"]))

_data_dir = Path(tempfile.mkdtemp(prefix="botpool-test-"))
_data_dir.chmod(0o755)  # when started as root, PostgreSQL runs as a different user

for _name in [name for name in os.environ if name.startswith(("COOLIFY_", "BOT_IMAGE_", "MAX_"))]:
    del os.environ[_name]
os.environ.pop("DATABASE_URL", None)
os.environ["BOTPOOL_ENV_FILE"] = ""  # not the one of the developer
os.environ["BOTPOOL_DATA_DIR"] = str(_data_dir)
# Many tests are one long transaction, and a busy machine may pause in it.
os.environ["IDLE_TRANSACTION_LIMIT"] = "60000"
_server = postgres.running(_data_dir, throw_away=True)
_server.__enter__()


def _end() -> None:
    _server.__exit__(None, None, None)
    shutil.rmtree(_data_dir, ignore_errors=True)


atexit.register(_end)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    return _data_dir


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))
