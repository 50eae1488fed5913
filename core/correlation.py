"""The correlation id of the current work, sent with each call and written in each log line."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HEADER = "X-Correlation-Id"

_current: ContextVar[str] = ContextVar("correlation_id", default="")
_bot: ContextVar[int | None] = ContextVar("bot_of_the_work", default=None)


def current_correlation_id() -> str:
    return _current.get()


def current_bot() -> int | None:
    """Return the number of the bot that the current work is for, if any."""
    return _bot.get()


@contextmanager
def correlated(correlation_id: str, *, bot: int | None = None) -> Iterator[None]:
    token, bot_token = _current.set(correlation_id), _bot.set(bot)
    try:
        yield
    finally:
        _bot.reset(bot_token)
        _current.reset(token)


def correlation_header() -> dict[str, str]:
    # A line break would make requests refuse the header, or inject another one.
    printable = "".join(c for c in _current.get() if c.isascii() and c.isprintable()).strip()
    return {HEADER: printable} if printable else {}
