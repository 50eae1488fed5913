"""Starts every command, with the embedded PostgreSQL running if DATABASE_URL is not set."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import Error
from psycopg.errors import UndefinedColumn, UndefinedFunction, UndefinedTable

from botpool.runtime.postgres import server as postgres
from botpool.runtime.shared_environment import adopt_environment
from core import environment as env
from core.sql import is_unavailable

# Commands that need no database, or start it themselves.
WITHOUT_DATABASE = {
    "",
    "check",
    "collectstatic",
    "coolify_simulator",
    "help",
    "runserver",
    "setup",
    "test",
    "up",
    "version",
    "--help",
    "--version",
    "-h",
}


# Errors of a disk or an output that takes no more.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def main(argv: list[str]) -> None:
    if sys.stdout is None:  # type: ignore[unreachable, unused-ignore]
        raise SystemExit("botpool: the output is closed; use > /dev/null instead")
    _check_arguments(argv)
    command = argv[1] if len(argv) > 1 else ""
    if command != "setup":  # it mends the file
        env.load_file()
    if command not in ("setup", "up"):  # these choose their own
        adopt_environment(env.data_dir())
    asks_for_help = "--help" in argv or "-h" in argv
    needs_database = command not in WITHOUT_DATABASE and not asks_for_help
    embedded = needs_database and settings.EMBEDDED_POSTGRES
    with _faults_in_one_line(), postgres.running(settings.DATA_DIR) if embedded else nullcontext():
        try:
            execute_from_command_line(argv)
        finally:
            sys.stdout.flush()


def _check_arguments(argv: list[str]) -> None:
    """Neither PostgreSQL nor Coolify accepts what is not UTF-8, and it cannot be printed."""
    for word in argv[1:]:
        if not _is_utf_8(word):
            raise SystemExit(f"botpool: the argument {word!r} is not UTF-8")


def _is_utf_8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _faults_in_one_line() -> Iterator[None]:
    """Report faults of the environment in one line. Our own bugs keep their traceback."""
    try:
        yield
    except postgres.PostgresError as error:
        raise SystemExit(f"botpool: {error}") from None
    except Error as error:
        if (line := _fault_of_database(error)) is None:
            raise
        raise SystemExit(f"botpool: {line}") from None
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        _discard_output()
        raise SystemExit(1) from None
    except OSError as error:
        if error.errno not in FULL:
            raise
        _discard_output()
        raise SystemExit(f"botpool: {error.strerror}") from None


def _fault_of_database(error: Error) -> str | None:
    reason = str(error).strip().partition("\n")[0]
    if isinstance(error.__cause__, UndefinedColumn | UndefinedFunction | UndefinedTable):
        return (
            f"the database is missing tables ({reason}): run manage.py migrate or, if they are "
            "there, grant Botpool's role USAGE on their schema"
        )
    if is_unavailable(error):
        return f"PostgreSQL: {reason} (run manage.py doctor for advice)"
    return None


def _discard_output() -> None:
    """Python would try to write the rest at its end, and report that it cannot."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
