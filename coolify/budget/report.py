"""What the budget has spent, what is left and what it holds back, for pages and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from coolify.budget.governor import WINDOW_SECONDS, allowance, read_budget
from coolify.client.calls import CallClass
from coolify.models import CallCount

GRANTED = "granted"
REFUSED = "refused:"
# The verdicts of `coolify_take` that grant nothing.
REFUSALS = ("paused", "circuit", "limit")


@dataclass(frozen=True)
class Counted:
    """A counter that only grows. See CallCount for the values of `outcome`."""

    call_class: str
    name: str
    outcome: str
    total: int

    @property
    def is_time_held_back(self) -> bool:
        return (self.call_class, self.name, self.outcome) == CallCount.HELD_BACK


@dataclass(frozen=True)
class ClassReport:
    call_class: CallClass
    left: int
    # The reserve for the classes before this one.
    held_back: int
    granted: int
    refused: dict[str, int]
    failed: dict[str, int]


@dataclass(frozen=True)
class BudgetReport:
    limit: int
    coolify_limit: int | None
    spent: int
    spent_by_others: int
    paused_until: datetime | None
    pause_reason: str
    times_paused: int
    circuit: str
    circuit_since: datetime | None
    circuit_until: datetime | None
    circuit_reason: str
    times_opened: int
    # The total of all pauses and open circuits, each counted when it begins.
    seconds_held_back: float
    failures: int
    classes: dict[CallClass, ClassReport]
    calls: list[Counted]

    @property
    def is_held_up(self) -> bool:
        return self.paused_until is not None or self.circuit != "closed"


def budget_report(*, window: int = WINDOW_SECONDS) -> BudgetReport:
    """Read the budget in one query. The fields of a pause are empty once it is over."""
    now, second, budget, calls = read_budget()
    counted = [Counted(*call) for call in _decoded(calls)]
    return _report(now, second=second, budget=_decoded(budget) or {}, calls=counted, window=window)


def _report(
    now: datetime, *, second: int, budget: dict[str, Any], calls: list[Counted], window: int
) -> BudgetReport:
    paused_until = _moment(budget.get("paused_until"))
    is_paused = paused_until is not None and paused_until > now
    circuit = _circuit(budget, now=now)
    spent = _spent(budget, second=second, window=window)
    is_held_up = is_paused or circuit == "open"
    return BudgetReport(
        limit=settings.COOLIFY_RATE_LIMIT,
        coolify_limit=budget.get("coolify_limit"),
        spent=spent,
        spent_by_others=budget.get("spent_by_others", 0),
        paused_until=paused_until if is_paused else None,
        pause_reason=budget.get("pause_reason", "") if is_paused else "",
        times_paused=budget.get("times_paused", 0),
        circuit=circuit,
        circuit_since=_moment(budget.get("open_since")),
        circuit_until=_moment(budget.get("open_until")),
        circuit_reason=budget.get("open_reason", ""),
        times_opened=budget.get("times_opened", 0),
        seconds_held_back=sum(each.total for each in calls if each.is_time_held_back) / 1000,
        failures=budget.get("failures", 0),
        classes={c: _class(c, calls, spent=spent, is_held_up=is_held_up) for c in CallClass},
        calls=[each for each in calls if not each.is_time_held_back],
    )


def _class(
    call_class: CallClass, calls: Iterable[Counted], *, spent: int, is_held_up: bool
) -> ClassReport:
    allowed = allowance(call_class, limit=settings.COOLIFY_RATE_LIMIT)
    totals: dict[str, int] = {}
    for call in calls:
        if call.call_class == call_class:
            totals[call.outcome] = totals.get(call.outcome, 0) + call.total
    return ClassReport(
        call_class=call_class,
        left=0 if is_held_up else max(allowed - spent, 0),
        held_back=settings.COOLIFY_RATE_LIMIT - allowed,
        granted=totals.pop(GRANTED, 0),
        refused={
            outcome.removeprefix(REFUSED): total
            for outcome, total in totals.items()
            if outcome.startswith(REFUSED)
        },
        failed={kind: total for kind, total in totals.items() if not kind.startswith(REFUSED)},
    )


def _circuit(budget: dict[str, Any], *, now: datetime) -> str:
    """Return `closed`, `open`, or `probing` once a call may check whether Coolify is back."""
    open_until = _moment(budget.get("open_until"))
    if open_until is None:
        return "closed"
    return "open" if open_until > now else "probing"


def _spent(budget: dict[str, Any], *, second: int, window: int) -> int:
    passed = max(second - budget.get("ring_second", 0), 0)
    ring: list[int] = budget.get("ring", [])
    return sum(ring[: max(window + 2 - passed, 0)])


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _decoded(value: Any) -> Any:
    # Django returns the jsonb of a raw query as text.
    return json.loads(value) if isinstance(value, str) else value
