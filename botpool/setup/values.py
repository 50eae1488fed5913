"""Whether settings accept a value: asked of the settings themselves, in a process of their own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from urllib.parse import urlsplit

import psycopg

from botpool.runtime.ports import is_loopback
from botpool.telemetry.doctor import OLDEST_POSTGRES, PATIENCE
from core.environment import BASE_DIR

LONG_ENOUGH = 60  # seconds


def fault_in(values: Mapping[str, str]) -> str:
    """What the settings say against these values; empty if nothing."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-c", "import botpool.settings"],
            env={"PATH": os.defpath, **values, "BOTPOOL_DATA_DIR": directory},
            cwd=BASE_DIR,
            capture_output=True,
            text=True,
            timeout=LONG_ENOUGH,
            check=False,
        )
    said = done.stderr.strip().splitlines()
    return said[-1].removeprefix("botpool: ") if done.returncode else ""


def fault_of_database(url: str) -> str:
    fault = fault_in({"DATABASE_URL": url})
    if fault:
        return fault
    try:
        with psycopg.connect(url, connect_timeout=PATIENCE) as connection:
            version = connection.info.server_version
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[-1]
        # libpq repeats a password that is not percent-encoded as it should be.
        if password := urlsplit(url).password:
            reason = reason.replace(password, "(hidden)")
        return f"PostgreSQL: {reason}. Is the address right, and may this machine connect?"
    if version < OLDEST_POSTGRES:
        return f"it is PostgreSQL {version // 10_000}; use 14 or newer"
    return ""


def fault_of_public_url(url: str) -> str:
    fault = fault_in({"BOTPOOL_PUBLIC_URL": url})
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not fault and parts.geturl() != f"{parts.scheme}://{parts.netloc}":
        return f"give it without a path, as {parts.scheme}://{parts.netloc}: Botpool has no prefix"
    if not fault and is_loopback(host):
        return f"{host} points a bot's container at itself; give an address that it can reach"
    return fault
