"""Everything that can go wrong when calling Coolify, as one family of errors.

Each error tells the caller four things:

- `permanent`: whether the same call will fail again until an operator changes something.
- `retry_after`: the seconds after which a retry makes sense, if known.
- `maybe_done`: whether Coolify may have carried out the call although it failed here.
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
    """No complete answer: refused, reset, timed out, unknown host, broken TLS."""


class Unavailable(CoolifyError):
    """Coolify, or a proxy in front of it, answered with a server error (5xx)."""


class MalformedAnswer(CoolifyError):
    """The answer is not what the endpoint promises. It proves nothing, not even an empty list."""


class RateLimited(CoolifyError):
    """429: this user has spent its calls for this minute, over all its tokens."""


class NotAccepted(CoolifyError):
    """Coolify accepted a start but created no deployment: its queue is full. Try later."""


class BudgetExhausted(CoolifyError):
    """The budget refused the call; nothing was sent."""

    def __init__(self, text: str, *, retry_after: float, reason: str) -> None:
        super().__init__(text, retry_after=retry_after)
        self.reason = reason


class CircuitOpen(BudgetExhausted):
    """Coolify failed repeatedly: calls wait until a probe succeeds."""


class AccessRefused(BudgetExhausted):
    """Coolify refused such calls of this token; nothing is sent until an operator changes that."""


# --- Permanent: something must change first --------------------------------------------


class NotFound(CoolifyError):
    """Coolify itself says that this does not exist (a proxy's 404 page does not count)."""

    permanent = True

    def __init__(self, text: str, *, thing: str, status: int | None = 404) -> None:
        super().__init__(text, status=status)
        self.thing = thing


class Refused(CoolifyError):
    """Coolify read the request and refused it (400, 403, 409, 422)."""

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
    """403: the token lacks an ability (read, write and deploy do not imply each other)."""

    permanent = True

    def __init__(self, text: str, *, ability: str, status: int | None = 403) -> None:
        super().__init__(text, status=status)
        self.ability = ability


class RoleMissing(CoolifyError):
    """403: the token's user is not an admin of its team, as deploying needs since 4.2."""

    permanent = True


class ApiDisabled(CoolifyError):
    """403: the API is disabled, as in a new self-hosted Coolify."""

    permanent = True


class AddressNotAllowed(CoolifyError):
    """403: our IP address is not in Coolify's Allowed IPs."""

    permanent = True


class MethodChanged(CoolifyError):
    """405: this version of Coolify expects a different HTTP method."""

    permanent = True


class WrongAddress(CoolifyError):
    """The base URL does not lead to Coolify's API: a redirect, or an unknown route."""

    permanent = True
