"""Everything that can go wrong when talking to Coolify, in one family.

A caller needs four answers, and each error carries them:

- `permanent`: would the same call fail again until somebody changes something?
- `retry_after`: seconds after which a repeat makes sense, where that is known.
- `maybe_done`: may Coolify have carried the call out although it failed here?
- its text: what happened, why, and what an operator can do. Never the token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FieldErrors = Mapping[str, Sequence[str]]


class CoolifyError(Exception):
    permanent: bool = False
    retry_after: float | None = None
    maybe_done: bool = False
    status: int | None = None

    def __init__(
        self,
        text: str,
        *,
        retry_after: float | None = None,
        maybe_done: bool = False,
        status: int | None = None,
    ) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        self.maybe_done = maybe_done
        self.status = status

    @property
    def kind(self) -> str:
        """A short stable word for logs and metrics, such as `RateLimited`."""
        return type(self).__name__


# --- Try again later -------------------------------------------------------------------


class Unreachable(CoolifyError):
    """No whole answer came: refused, reset, timed out, no such host, broken TLS."""


class Unavailable(CoolifyError):
    """Coolify, or the proxy before it, answered with a server error (5xx)."""


class MalformedAnswer(CoolifyError):
    """An answer that is not what the endpoint promises. It proves nothing, least of all "none"."""


class RateLimited(CoolifyError):
    """429: the budget of calls a minute of this user is spent, over all its tokens."""


class NotAccepted(CoolifyError):
    """Coolify said yes to a start, yet there is no deployment: its queue is full. Try later."""


class BudgetExhausted(CoolifyError):
    """The gate before the client let the call through to nobody: nothing was sent."""

    def __init__(self, text: str, *, retry_after: float, reason: str) -> None:
        super().__init__(text, retry_after=retry_after)
        self.reason = reason


class CircuitOpen(BudgetExhausted):
    """Coolify failed again and again: calls wait until a probe has succeeded."""


# --- Try again when something was changed ----------------------------------------------


class NotFound(CoolifyError):
    """Coolify itself says that the thing is not there (a proxy's 404 page does not count)."""

    permanent = True

    def __init__(self, text: str, *, thing: str, status: int | None = 404) -> None:
        super().__init__(text, status=status)
        self.thing = thing


class Refused(CoolifyError):
    """Coolify read the request and will not do it (400, 403, 409, 422)."""

    permanent = True

    def __init__(
        self, text: str, *, status: int, message: str = "", errors: FieldErrors | None = None
    ) -> None:
        super().__init__(text, status=status)
        self.message = message
        self.errors: FieldErrors = errors or {}

    @property
    def unknown_fields(self) -> set[str]:
        """Fields that this version of Coolify does not know."""
        return {
            field
            for field, complaints in self.errors.items()
            if any("not allowed" in complaint for complaint in complaints)
        }


class NotRunning(Refused):
    """The application has no running container, so there are no logs to read."""

    permanent = False


class Unauthenticated(CoolifyError):
    """401: Coolify does not know the token."""

    permanent = True


class AbilityMissing(CoolifyError):
    """403: the token is good and lacks an ability (read, write, deploy do not imply each other)."""

    permanent = True

    def __init__(self, text: str, *, ability: str, status: int | None = 403) -> None:
        super().__init__(text, status=status)
        self.ability = ability


class ApiDisabled(CoolifyError):
    """403: the API is switched off, as it is in a fresh self-hosted Coolify."""

    permanent = True


class AddressNotAllowed(CoolifyError):
    """403: Coolify's list of allowed addresses does not contain ours."""

    permanent = True


class MethodChanged(CoolifyError):
    """405: this version of Coolify wants another HTTP method here."""

    permanent = True


class WrongAddress(CoolifyError):
    """The base URL does not lead to Coolify's API: a redirect, or a route it does not know."""

    permanent = True
