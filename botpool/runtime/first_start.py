"""Prepares the database for the first start: tables, and an operator who can log in."""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from api.keys import create_api_key
from core.locks import session_lock

OPERATOR = "operator"
START_LOCK = 0x626F74706F6F6C  # "botpool"


@contextmanager
def one_start_at_a_time() -> Iterator[None]:
    """Hold an advisory lock, which makes other starts on the same database wait."""
    with closing(connection.copy()) as session:
        session_lock(session, START_LOCK)
        yield


def migrate() -> None:
    call_command("migrate", interactive=False, verbosity=0)


def make_operator() -> dict[str, str]:
    """Create the operator's account and API key, to be shown once; nothing if there are users.

    Only inside a transaction.
    """
    if User.objects.exists():
        return {}
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser(OPERATOR, password=password)
    key = create_api_key(name=OPERATOR, role="operator")
    return {"name": OPERATOR, "password": password, "API key": key}


def box(title: str, lines: dict[str, str]) -> str:
    width = max(len(name) for name in lines)
    rows = [title, "", *(f"{name:<{width}}  {value}" for name, value in lines.items())]
    longest = max(len(row) for row in rows)
    edge = "─" * (longest + 2)
    inner = "\n".join(f"│ {row:<{longest}} │" for row in rows)
    return f"╭{edge}╮\n{inner}\n╰{edge}╯"
