"""Laravel's rate limit, as Coolify uses it."""

from dataclasses import dataclass

from coolify.simulator.messages import Answer, Refusal

WINDOW = 60.0


@dataclass
class Window:
    ends_at: float
    spent: int = 0


class RateLimit:
    """Counts requests per user; a count starts again a minute after its first request."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}

    def spend(self, *, user: str, limit: int, now: float) -> dict[str, str]:
        """Return the headers for the answer, or raise Refusal if the limit is reached."""
        window = self.count(user=user, now=now)
        if window.spent > limit:
            raise self._too_many(window, limit=limit, now=now)
        return headers(limit=limit, remaining=limit - window.spent)

    def count(self, *, user: str, now: float) -> Window:
        window = self._windows.get(user)
        if window is None or window.ends_at <= now:
            window = self._windows[user] = Window(ends_at=now + WINDOW)
        window.spent += 1
        return window

    def check(self, *, user: str, limit: int, now: float) -> None:
        """Raise Refusal if as many as `limit` were counted; count nothing."""
        window = self._windows.get(user)
        if window is not None and window.ends_at > now and window.spent >= limit:
            raise self._too_many(window, limit=limit, now=now)

    def _too_many(self, window: Window, *, limit: int, now: float) -> Refusal:
        wait = max(1, round(window.ends_at - now))
        more = {"Retry-After": str(wait), "X-RateLimit-Reset": str(round(window.ends_at))}
        return Refusal(
            Answer(
                429,
                {"message": "Too Many Attempts."},
                headers=headers(limit=limit, remaining=0) | more,
            )
        )


def headers(*, limit: int, remaining: int) -> dict[str, str]:
    return {"X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": str(remaining)}
