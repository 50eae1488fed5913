"""Hear what is sent with NOTIFY, on a connection of one's own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def listening(channel: str) -> Iterator[Callable[[], list[str]]]:
    """Call what it yields for the payloads that have come since the last call."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(f"LISTEN {channel}")

        def notices() -> list[str]:
            # What was committed before this statement has arrived with its answer.
            with other.cursor() as cursor:
                cursor.execute("SELECT 1")
            assert other.connection is not None
            return [notice.payload for notice in other.connection.notifies(timeout=0)]

        yield notices
    finally:
        other.close()
