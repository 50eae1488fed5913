"""One budget of calls to Coolify for all processes on all machines, kept in PostgreSQL.

Never more than COOLIFY_RATE_LIMIT calls in any window of a minute. Starting and stopping may use
all of it, watching leaves a reserve to them, description text leaves one to both. One 429 pauses
everybody. After repeated failures a circuit opens: calls are refused at once until a single
probe has succeeded.

`before` is one round trip. `after` is none, unless there is something that others must know.
Neither waits: who is refused is told when to come back. Both commit on their own, so a caller
inside a transaction would hold up every other one: talk to Coolify outside of it.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError, connection

from coolify.client.calls import Call, CallClass, Outcome
from coolify.client.errors import (
    BudgetExhausted,
    CircuitOpen,
    MalformedAnswer,
    RateLimited,
    Unavailable,
    Unreachable,
)
from coolify.models import CallCount

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60
# The share of the limit up to which each class may push what all have spent together.
SHARES = {CallClass.URGENT: 1.0, CallClass.WATCH: 0.75, CallClass.TEXT: 0.5}

# Whatever holds calls back for longer than they were held back before is counted here, when it
# begins: a pause may be over before anybody looks. One statement, so that nobody who freezes in
# between keeps the row. Each step reads from the one before, which sets their order.
SETTLE = """
WITH before AS MATERIALIZED (
    SELECT greatest(paused_until, open_until, clock_timestamp()) AS held_until
    FROM coolify_locked_budget(%s)
), settled AS MATERIALIZED (
    SELECT held_until,
        coolify_settle(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) AS event
    FROM before
), after AS MATERIALIZED (
    SELECT held_until, event, coolify_locked_budget(%s) AS budget FROM settled
), added AS (
    SELECT extract(epoch FROM
        greatest((budget).paused_until, (budget).open_until) - held_until) AS seconds
    FROM after
), counted AS (
    INSERT INTO coolify_callcount AS counted (call_class, name, outcome, total)
    SELECT %s, %s, %s, round(1000 * seconds) FROM added WHERE seconds > 0
    ON CONFLICT (call_class, name, outcome) DO UPDATE SET total = counted.total + excluded.total
)
SELECT event FROM after
"""

SHORTEST_PAUSE = 1.0
# Longer than any call may take: a probe whose process died is given up.
PROBE_SECONDS = 90.0


@dataclass(frozen=True)
class Permit:
    """What the governor knew when it granted a call. Times are the database's, in epoch seconds."""

    granted_at: float
    spent: int
    left: int
    failures: int
    is_probe: bool
    coolify_limit: int | None


@dataclass(frozen=True)
class Circuit:
    failures_to_open: int = 5
    first_pause: float = 5.0
    longest_pause: float = 60.0


@dataclass(frozen=True)
class Governor:
    """The gate of every `Coolify` that shares the budget."""

    window: int = WINDOW_SECONDS
    circuit: Circuit = field(default_factory=Circuit)

    def before(self, call: Call) -> Permit:
        limit = settings.COOLIFY_RATE_LIMIT
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT verdict, wait, spent, failures, is_probe, coolify_limit, decided_at, reason"
                " FROM coolify_take(%s, %s, %s, %s, %s)",
                [
                    call.call_class,
                    call.name,
                    allowance(call.call_class, limit=limit),
                    self.window,
                    PROBE_SECONDS,
                ],
            )
            verdict, wait, spent, failures, is_probe, seen, at, reason = cursor.fetchone()
        if verdict != "granted":
            raise _refusal(call, verdict=verdict, wait=wait, reason=reason)
        return Permit(
            granted_at=at,
            spent=spent,
            left=limit - spent,
            failures=failures,
            is_probe=is_probe,
            coolify_limit=seen,
        )

    def after(self, call: Call, outcome: Outcome, permit: Permit) -> None:
        if not _is_news(outcome, permit):
            return
        try:
            self._settle(call, outcome, permit)
        except DatabaseError:
            # Coolify's answer is worth more than what the budget would learn from it: losing
            # the uuid of an application just created would leave it to nobody.
            logger.exception("The budget could not note how %s ended", call.name)

    def _settle(self, call: Call, outcome: Outcome, permit: Permit) -> None:
        error = outcome.error
        with connection.cursor() as cursor:
            cursor.execute(
                SETTLE,
                [
                    self.window,
                    call.call_class,
                    call.name,
                    error.kind if error else None,
                    str(error) if error else None,
                    _is_alive(outcome),
                    permit.is_probe,
                    _pause(outcome),
                    settings.COOLIFY_RATE_LIMIT,
                    # A 429 says "none left" too; the pause it asks for is the better measure.
                    None if isinstance(error, RateLimited) else outcome.remaining,
                    outcome.limit,
                    self.window,
                    self.circuit.failures_to_open,
                    self.circuit.first_pause,
                    self.circuit.longest_pause,
                    self.window,
                    *CallCount.HELD_BACK,
                ],
            )
            (event,) = cursor.fetchone()
        if event:
            logger.warning("Coolify circuit %s: %s", event, error or "Coolify answers again")


def allowance(call_class: CallClass, *, limit: int) -> int:
    """How much may be spent by all together before this class has to wait; at least one call."""
    return math.ceil(limit * SHARES[call_class])


def _is_news(outcome: Outcome, permit: Permit) -> bool:
    if outcome.status is None and outcome.error is None:
        return False  # interrupted: nothing was learnt
    return (
        outcome.error is not None
        or permit.is_probe
        or permit.failures > 0
        or (outcome.remaining is not None and outcome.remaining < permit.left)
        or (outcome.limit is not None and outcome.limit != permit.coolify_limit)
    )


def _is_alive(outcome: Outcome) -> bool | None:
    """Did Coolify itself answer, be it with a refusal? A page from who knows where says nothing."""
    if isinstance(outcome.error, Unreachable | Unavailable):
        return False
    return None if isinstance(outcome.error, MalformedAnswer) else True


def _pause(outcome: Outcome) -> float | None:
    if isinstance(outcome.error, RateLimited):
        return max(outcome.error.retry_after or 0.0, SHORTEST_PAUSE)
    return None


def _refusal(call: Call, *, verdict: str, wait: float, reason: str) -> BudgetExhausted:
    wait = max(wait, 0.05)
    if verdict == "circuit":
        return CircuitOpen(
            f"Coolify is not asked to {call.name}: it failed too often, and one call at a time "
            f"tries whether it is back, next in {wait:.0f} s. {reason}".strip(),
            retry_after=wait,
            reason=verdict,
        )
    if verdict == "paused":
        text = f"{call.name} has to wait {wait:.0f} s: Coolify wants no more calls until then."
    else:
        text = (
            f"{call.name} has to wait {wait:.0f} s: of the {settings.COOLIFY_RATE_LIMIT} calls a "
            f"minute (COOLIFY_RATE_LIMIT) those for {call.call_class} calls are spent."
        )
    return BudgetExhausted(text, retry_after=wait, reason=verdict)
