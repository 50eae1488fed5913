"""A pytest plugin (-p tests.embedded) that gives the tests a throw-away PostgreSQL of their own.

It has to be there before Django's settings are read, which is earlier than any conftest.py.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from botpool.runtime.postgres import server as postgres

_data_dir = Path(tempfile.mkdtemp(prefix="botpool-test-"))
_data_dir.chmod(0o755)  # as root, PostgreSQL runs as another user, who has to get in

for _name in [name for name in os.environ if name.startswith(("COOLIFY_", "BOT_IMAGE_", "MAX_"))]:
    del os.environ[_name]
os.environ.pop("DATABASE_URL", None)
os.environ["BOTPOOL_DATA_DIR"] = str(_data_dir)
# Many tests are one long transaction, in which a busy machine may pause.
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
