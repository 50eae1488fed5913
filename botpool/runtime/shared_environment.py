"""Shares the environment of a running `manage.py up` with commands in other shells."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botpool.runtime.postgres.file_locks import is_free
from botpool.runtime.secret_files import read_object, write_privately
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
    found = read_object(data_dir / FILE)
    if found.get("database") != _database() or not _is_running(data_dir):
        return
    another_coolify = env.is_set_by_shell("COOLIFY_API_URL")
    for name, value in _variables(found).items():
        if not ((another_coolify and name.startswith("COOLIFY_")) or env.is_set_by_shell(name)):
            os.environ[name] = value


def _is_running(data_dir: Path) -> bool:
    try:
        return not is_free(data_dir / LOCK)
    except OSError:
        return False


def _variables(found: dict[str, Any]) -> dict[str, str]:
    """None of them if one cannot be a variable: the file is damaged."""
    shared = found.get("environment")
    if not isinstance(shared, dict):
        return {}
    return shared if all(_is_variable(*item) for item in shared.items()) else {}


def _is_variable(name: str, value: Any) -> bool:
    return bool(re.fullmatch(r"\w+", name)) and isinstance(value, str) and "\0" not in value


def _database() -> str:
    """Host, port and name without credentials; empty for the embedded database."""
    return env.text("DATABASE_URL").rpartition("@")[2].partition("?")[0]
