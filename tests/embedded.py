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
os.environ["STATEMENT_LIMIT"] = "60000"
os.environ["STATUS_SETTLES_AFTER"] = "1"  # the bots of tests end soon after their start
_server = postgres.running(_data_dir, throw_away=True)
_server.__enter__()


def _end() -> None:
    _server.__exit__(None, None, None)
    shutil.rmtree(_data_dir, ignore_errors=True)


atexit.register(_end)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    return _data_dir
