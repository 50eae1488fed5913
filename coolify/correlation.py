"""The correlation id of the work at hand, sent with each call and written in each log line."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HEADER = "X-Correlation-Id"

_current: ContextVar[str] = ContextVar("correlation_id", default="")


def current_correlation_id() -> str:
    return _current.get()


@contextmanager
def correlated(correlation_id: str) -> Iterator[None]:
    token = _current.set(correlation_id)
    try:
        yield
    finally:
        _current.reset(token)


def correlation_header() -> dict[str, str]:
    # A header with a line break in it would be refused by requests, or worse.
    printable = "".join(c for c in _current.get() if c.isascii() and c.isprintable()).strip()
    return {HEADER: printable} if printable else {}
