"""One call with its retries, as steps that a client carries out: send this, then wait so long.

A step is yielded, and its outcome sent back. So the sync and the async client share all decisions,
and a test can script them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar

import httpx

from botpool_client.errors import (
    BotpoolError,
    RateLimited,
    ServerError,
    UnexpectedAnswer,
    Unreachable,
    error_from_problem,
)

T = TypeVar("T")

# The call cannot have been carried out: it was not sent.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
NOT_FOR_GOOD = frozenset({500, 502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One HTTP call. `repeatable`: doing it twice does no more than doing it once."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False


@dataclass(frozen=True)
class Send:
    """The client answers with the response, or with the error of httpx."""

    call: Call[Any]
    timeout: float | None = None  # seconds; None: as the client is set


@dataclass(frozen=True)
class Sleep:
    seconds: float


Outcome = httpx.Response | httpx.TransportError | None
Steps = Generator[Send | Sleep, Outcome, T]


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often a call is tried, and how long it pauses in between, in seconds.

    The pauses double, at random between half and all of it. `Retry-After` is respected; if it is
    longer than `longest_pause`, the error is raised at once."""

    attempts: int = 4
    first_pause: float = 0.5
    longest_pause: float = 60.0

    def pause(self, attempt: int, *, retry_after: float | None) -> float:
        whole = min(self.first_pause * 2.0 ** (attempt - 1), self.longest_pause)
        usual: float = whole * random.uniform(0.5, 1)  # noqa: S311 - spreads load only
        return max(usual, retry_after or 0)


def perform(
    call: Call[T],
    retries: Retries,
    *,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Steps[T]:
    """`deadline`: on this clock; no pause and no answer is waited for beyond it."""
    attempt = 0
    while True:
        attempt += 1
        left = None if deadline is None else max(deadline - clock(), 0.001)
        outcome = yield Send(call, timeout=left)
        try:
            return _read(call, outcome)
        except BotpoolError as error:
            pause = retries.pause(attempt, retry_after=error.retry_after)
            too_long = pause > retries.longest_pause
            too_late = deadline is not None and clock() + pause >= deadline
            if attempt >= retries.attempts or too_long or too_late or not _again(call, error):
                raise
        yield Sleep(pause)


def _again(call: Call[Any], error: BotpoolError) -> bool:
    """Whether trying again may help, and cannot do the thing twice."""
    if isinstance(error, RateLimited):
        return True  # refused before anything was done
    if isinstance(error, Unreachable):
        return call.repeatable or not error.maybe_done
    return call.repeatable and isinstance(error, ServerError) and error.status in NOT_FOR_GOOD


def _read(call: Call[T], outcome: Outcome) -> T:
    if not isinstance(outcome, httpx.Response):
        raise _unreachable(outcome) from outcome
    if not outcome.is_success:
        raise _error(outcome)
    try:
        return call.read(outcome)
    except ValueError as error:
        raise UnexpectedAnswer(f"{_what(outcome)}: {error}. Is this Botpool's address?") from error


def _unreachable(error: httpx.TransportError | None) -> Unreachable:
    words = str(error) or type(error).__name__
    return Unreachable(
        f"No answer{_from(error)}: {words}", maybe_done=not isinstance(error, NOT_SENT)
    )


def _from(error: httpx.TransportError | None) -> str:
    """The host, so that a wrong address shows; nothing else of the address."""
    try:
        url = error.request.url if error else None
    except RuntimeError:  # httpx knows of no request
        url = None
    return f" from {url.scheme}://{url.host}{f':{url.port}' if url.port else ''}" if url else ""


def _error(response: httpx.Response) -> BotpoolError:
    problem = _problem(response)
    if problem is None and response.status_code < 500 and response.status_code != 429:
        return UnexpectedAnswer(f"{_what(response)}, and not from Botpool. Check the address.")
    return error_from_problem(
        problem or {"title": response.reason_phrase, "detail": "The answer is not Botpool's."},
        status=response.status_code,
        retry_after=_retry_after(response),
        correlation_id=response.headers.get("X-Correlation-Id", ""),
    )


def _problem(response: httpx.Response) -> Mapping[str, Any] | None:
    try:
        found = response.json()
    except ValueError:
        return None
    is_one = response.headers.get("Content-Type", "").startswith("application/problem+json")
    return found if is_one and isinstance(found, dict) else None


def _what(response: httpx.Response) -> str:
    return f"{response.request.method} {response.url.path} was answered {response.status_code}"


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds, or a date (RFC 9110)."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
