"""Everything that can go wrong, as one family of errors.

Each has `permanent`: whether the same call fails again until something is changed, and
`retry_after`: the seconds after which trying again makes sense, if Botpool named them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botpool_client.results import Bot


class BotpoolError(Exception):
    permanent: bool = False
    retry_after: float | None = None


# --- No answer, or not one of Botpool's ---------------------------------------------------------


class Unreachable(BotpoolError):
    """No complete answer: refused, reset, timed out, unknown host.

    `maybe_done`: the call may have been carried out all the same."""

    def __init__(self, text: str, *, maybe_done: bool) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done


class UnexpectedAnswer(BotpoolError):
    """The answer is not one of Botpool's: a redirect, or a page of a proxy. Check the address."""

    permanent = True


# --- Botpool's own errors (application/problem+json) --------------------------------------------


class ApiError(BotpoolError):
    """Botpool refused the call or failed.

    `errors` has the messages by field; `correlation_id` finds the call in Botpool's log."""

    permanent = True

    def __init__(
        self,
        *,
        status: int,
        title: str,
        detail: str,
        type: str = "about:blank",
        errors: Mapping[str, Sequence[str]] | None = None,
        retry_after: float | None = None,
        correlation_id: str = "",
    ) -> None:
        self.status = status
        self.title = title
        self.detail = detail
        self.type = type
        self.errors = {name: tuple(texts) for name, texts in (errors or {}).items()}
        self.retry_after = retry_after
        self.correlation_id = correlation_id
        super().__init__(self._text())

    def _text(self) -> str:
        fields = (f"{name}: {' '.join(texts)}" for name, texts in self.errors.items())
        return " ".join([f"{self.status} {self.title}: {self.detail}", *fields])


class InvalidRequest(ApiError):
    """400, 405, 413, 415 or 422: the call itself is wrong; see `errors`."""


class NotAllowed(ApiError):
    """401 or 403: the key is unknown or revoked, or the call needs an operator's key."""


class NotFound(ApiError):
    """404: it does not exist, or belongs to another client."""


class Conflict(ApiError):
    """409: an Idempotency-Key that was used with a different body, or a state that forbids it."""


class RateLimited(ApiError):
    """429: too many calls with this key."""

    permanent = False


class OverQuota(ApiError):
    """429: the client has as many bots as it may. Try again when one has ended."""

    permanent = False


class ServerError(ApiError):
    """5xx: Botpool, its database or a proxy in front of it failed."""

    permanent = False


OVER_QUOTA = "urn:botpool:over-quota"
_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    405: InvalidRequest,
    409: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: RateLimited,
}


def error_from_problem(
    problem: Mapping[str, Any], *, status: int, retry_after: float | None, correlation_id: str
) -> ApiError:
    kind = str(problem.get("type") or "about:blank")
    family = ServerError if status >= 500 else _BY_STATUS.get(status, ApiError)
    return (OverQuota if kind == OVER_QUOTA else family)(
        status=status,
        title=str(problem.get("title") or ""),
        detail=str(problem.get("detail") or ""),
        type=kind,
        errors=_errors_by_field(problem.get("errors")),
        retry_after=retry_after,
        correlation_id=correlation_id,
    )


def _errors_by_field(found: object) -> dict[str, list[str]]:
    if not isinstance(found, Mapping):
        return {}
    return {
        str(name): [str(text) for text in texts]
        for name, texts in found.items()
        if isinstance(texts, list)
    }


# --- Waiting ------------------------------------------------------------------------------------


class BotEnded(BotpoolError):
    """The bot ended in another status than the one waited for. `bot` says why."""

    permanent = True

    def __init__(self, bot: Bot) -> None:
        super().__init__(f"Bot {bot.id} is {bot.status}: {bot.failure_reason or 'it has ended'}")
        self.bot = bot


class WaitTimeout(BotpoolError):
    """The deadline came first. `bot` is the bot as it was last seen, if it was seen at all."""

    def __init__(self, text: str, *, bot: Bot | None) -> None:
        super().__init__(text)
        self.bot = bot
