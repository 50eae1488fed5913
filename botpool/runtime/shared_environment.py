"""Shares the environment of a running `manage.py up` with commands in other shells."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botpool.runtime.postgres.file_locks import is_free
from botpool.runtime.secret_files import write_privately
from core import environment as env

FILE = "up.json"
LOCK = "up.lock"  # held while `up` or any of its processes runs
SECRETS = {
    "COOLIFY_API_TOKEN",
    "COOLIFY_WEBHOOK_SECRET",
    "DATABASE_URL",
    "METRICS_TOKEN",
    "REDIS_URL",
    "SECRET_KEY",
    "SECRET_KEY_FALLBACKS",
}


@contextmanager
def environment_shared(data_dir: Path, chosen: dict[str, str]) -> Iterator[None]:
    """Share our variables and those that `up` chose, except secrets, inside the block."""
    given = {name: os.environ[name] for name in env.names_read() if os.environ.get(name)}
    shared = {name: value for name, value in (given | chosen).items() if name not in SECRETS}
    file = data_dir / FILE
    write_privately(file, json.dumps({"database": _database(), "environment": shared}))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def adopt_environment(data_dir: Path) -> None:
    """Take variables that the shell does not set from the `up` on this directory and database."""
    try:
        found = json.loads((data_dir / FILE).read_text())
        is_stale = is_free(data_dir / LOCK)
    except (OSError, ValueError):
        return
    if is_stale or found["database"] != _database():
        return
    another_coolify = env.is_set_by_shell("COOLIFY_API_URL")
    for name, value in found["environment"].items():
        if not ((another_coolify and name.startswith("COOLIFY_")) or env.is_set_by_shell(name)):
            os.environ[name] = value


def _database() -> str:
    """Host, port and name without credentials; empty for the embedded database."""
    return env.text("DATABASE_URL").rpartition("@")[2].partition("?")[0]
