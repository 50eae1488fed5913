"""One budget of calls to Coolify for all processes on all machines, kept in PostgreSQL.

Never more than COOLIFY_RATE_LIMIT calls in any window of a minute. Urgent calls leave a reserve
for observations, watch calls one for both, and text calls one for all three. One 429 pauses every
process. Repeated failures open the circuit: calls are refused at once until one probe succeeds.

`before` costs two round trips. `after` costs none, unless other processes need to know something.
Neither waits: a refusal says when to come back. Both lock the budget's row until they commit, so
never call Coolify inside a transaction: it would block every other process.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection

from coolify.budget.access import note_answer, require_access
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
# Each class may call until all classes together have spent this share of the limit.
# Starts and stops depend on observations that confirm them, so a tenth is kept for those.
SHARES = {
    CallClass.OBSERVE: 1.0,
    CallClass.URGENT: 0.9,
    CallClass.WATCH: 0.75,
    CallClass.TEXT: 0.5,
}

# Counts the time that a new pause or open circuit adds. It counts at the beginning, because a pause
# may be over before the metrics are read. One statement, so a process that freezes cannot keep the
# row locked. Each step reads from the one before, which fixes their order.
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


@dataclass(frozen=True)
class Permit:
    """What the governor knew when it granted a call. Times are the database's, in epoch seconds."""

    granted_at: float
    spent: int
    left: int
    failures: int
    is_probe: bool
    coolify_limit: int | None
    # Whether it tries again what Coolify refused before.
    tries_access: bool = False


def _probe_pause() -> float:
    pause: timedelta = settings.COOLIFY_PROBE_PAUSE
    return pause.total_seconds()


@dataclass(frozen=True)
class Circuit:
    """Pauses are in seconds."""

    failures_to_open: int = 5
    first_pause: float = field(default_factory=_probe_pause)
    # One call that fails costs nothing. A Coolify that is back should not have to wait for it.
    longest_pause: float = field(default_factory=lambda: 3 * _probe_pause())
    # All other calls wait this long for a probe's answer. Then another one may pass: the first may
    # hang, its process may have died, or the database may have been away when its answer came.
    probe_patience: float = field(default_factory=_probe_pause)


@dataclass(frozen=True)
class Governor:
    """The gate for every `Coolify` that shares the budget."""

    window: int = WINDOW_SECONDS
    circuit: Circuit = field(default_factory=Circuit)
    # A fingerprint of the token, for which refusals are remembered; empty: they are not.
    token: str = ""

    def before(self, call: Call) -> Permit:
        tries_access = bool(self.token) and require_access(call, self.token)
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
                    self.circuit.probe_patience,
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
            tries_access=tries_access,
        )

    def after(self, call: Call, outcome: Outcome, permit: Permit) -> None:
        if not _is_news(outcome, permit):
            return
        try:
            if self.token:
                was_probe = permit.tries_access
                note_answer(call, outcome.error, self.token, was_probe=was_probe)
            self._settle(call, outcome, permit)
        except DatabaseError:
            # The caller needs Coolify's answer more than the budget does: without its uuid, an
            # application just created would become an orphan.
            logger.exception("The budget could not record how %s ended", call.name)

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
                    _is_alive(call, outcome),
                    permit.is_probe,
                    _pause(outcome),
                    settings.COOLIFY_RATE_LIMIT,
                    # A 429 also reports that 0 are left; the pause it asks for is more exact.
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
    """Return how many calls all classes may spend before this class must wait; at least one."""
    return math.ceil(limit * SHARES[call_class])


def _is_news(outcome: Outcome, permit: Permit) -> bool:
    if outcome.status is None and outcome.error is None:
        return False  # interrupted: nothing to record
    return (
        outcome.error is not None
        or permit.is_probe
        or permit.tries_access
        or permit.failures > 0
        or (outcome.remaining is not None and outcome.remaining < permit.left)
        or (outcome.limit is not None and outcome.limit != permit.coolify_limit)
    )


def _is_alive(call: Call, outcome: Outcome) -> bool | None:
    """Return whether Coolify itself answered, even to refuse; None if the answer proves nothing."""
    if isinstance(outcome.error, Unreachable | Unavailable):
        # Coolify reads a log over SSH: that it fails or is slow says something of one server only.
        return None if call.name == "logs" else False
    return None if isinstance(outcome.error, MalformedAnswer) else True


def _pause(outcome: Outcome) -> float | None:
    if isinstance(outcome.error, RateLimited):
        return max(outcome.error.retry_after or 0.0, SHORTEST_PAUSE)
    return None


def _refusal(call: Call, *, verdict: str, wait: float, reason: str) -> BudgetExhausted:
    wait = max(wait, 0.05)
    if verdict == "circuit":
        return CircuitOpen(
            f"The call to {call.purpose} was not sent: Coolify failed too often. One call at a "
            f"time checks whether it is back, the next in {wait:.0f} s. {reason}".strip(),
            retry_after=wait,
            reason=verdict,
        )
    if verdict == "paused":
        text = (
            f"The call to {call.purpose} must wait {wait:.0f} s: Coolify accepts no more calls "
            "until then."
        )
    else:
        text = (
            f"The call to {call.purpose} must wait {wait:.0f} s: of the "
            f"{settings.COOLIFY_RATE_LIMIT} calls a minute (COOLIFY_RATE_LIMIT), the share for "
            f"{call.call_class} calls is spent."
        )
    return BudgetExhausted(text, retry_after=wait, reason=verdict)


# --- Reading it ---------------------------------------------------------------------------------

REPORT = """
    SELECT clock_timestamp(), floor(extract(epoch FROM clock_timestamp()))::bigint,
           (SELECT to_jsonb(b) FROM coolify_budget b WHERE id = 1),
           (SELECT coalesce(jsonb_agg(jsonb_build_array(call_class, name, outcome, total)
                ORDER BY call_class, name, outcome), '[]') FROM coolify_callcount)
"""


def read_budget() -> tuple[Any, ...]:
    """The time, its second, the budget's row and all counts, in one round trip."""
    with connection.cursor() as cursor:
        cursor.execute(REPORT)
        row: tuple[Any, ...] = cursor.fetchone()
    return row
