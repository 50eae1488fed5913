"""The health of everything the pool depends on, in one line each."""

from dataclasses import dataclass
from functools import partial

from django.urls import reverse

from coolify.budget.report import BudgetReport, budget_report
from coolify.shared import refused_access
from core.jobs.liveness import reasons_of_processes
from dashboard.actions.coolify import ACCESS, CIRCUIT, PAUSE
from dashboard.overview.codes import AttentionCode
from pool.controller.belief.doubts import open_doubt
from pool.waiting.words import time_of
from slots.deployment import Watch


@dataclass(frozen=True, kw_only=True)
class Part:
    code: AttentionCode  # of its fault
    name: str
    is_well: bool
    words: str
    detail: str = ""  # more about its fault than fits a line of its own
    next_step: str = ""
    button: str = ""
    action: str = ""
    item: str = ""
    link: str = ""


def health(budget: BudgetReport, *, may_miss_coolify: bool = True) -> list[Part]:
    """`may_miss_coolify`: False spares the queries for what may be wrong with Coolify."""
    missing = reasons_of_processes()
    return [
        _process(AttentionCode.WORKER_GONE, "Worker", missing.get("worker", "")),
        _process(AttentionCode.TICKER_GONE, "Ticker", missing.get("ticker", "")),
        _coolify(budget, may_miss=may_miss_coolify),
        _calls(budget),
    ]


def health_of_coolify() -> Part:
    return _coolify(budget_report(), may_miss=True)


def _process(code: AttentionCode, name: str, reason: str) -> Part:
    return Part(code=code, name=name, is_well=not reason, words=reason or "running")


def _coolify(budget: BudgetReport, *, may_miss: bool) -> Part:
    part = partial(Part, code=AttentionCode.COOLIFY_AWAY, name="Coolify")
    if not may_miss:
        return part(is_well=True, words="answers") if budget.circuit == "closed" else _away(budget)
    if refused := refused_access():
        return part(
            is_well=False,
            words=f"refuses access: {refused[0].reason}",
            next_step="Such calls are not sent again until the token changes or you try again.",
            button="Try again",
            action="try-access",
            item=ACCESS,
        )
    if budget.circuit == "closed" and (doubt := open_doubt()):
        words = f"is not believed: {doubt.reason}"
        repairs = f"{reverse('activity')}?show=repairs"
        return part(is_well=False, words=words, next_step=doubt.check, link=repairs)
    watch = Watch.objects.filter(failing_since__isnull=False).first()
    if budget.circuit != "closed":
        return _away(budget)
    if watch is not None:
        words = f"cannot be observed: {watch.error}"
        return part(is_well=False, words=words)
    return part(is_well=True, words="answers")


def _away(budget: BudgetReport) -> Part:
    since = f" since {time_of(budget.circuit_since)}" if budget.circuit_since else ""
    again = f"; tried again at {time_of(budget.circuit_until)}" if budget.circuit_until else ""
    return Part(
        code=AttentionCode.COOLIFY_AWAY,
        name="Coolify",
        is_well=False,
        words=f"no answer{since}{again}",
        detail=f". {budget.circuit_reason}",
        next_step="Check that Coolify is up. Meetings go on; starts and stops wait.",
        button="Try now",
        action="try-coolify",
        item=CIRCUIT,
    )


def _calls(budget: BudgetReport) -> Part:
    part = partial(Part, code=AttentionCode.CALLS_PAUSED, name="Calls")
    if budget.paused_until is not None:
        return part(
            is_well=False,
            words=f"paused until {time_of(budget.paused_until)}: {budget.pause_reason}",
            button="Lift pause",
            action="lift-pause",
            item=PAUSE,
        )
    words = f"{budget.spent} of {budget.limit} in the last minute"
    if budget.spent >= budget.limit:
        # Normal under load: starts and stops go first, and the rest follows within a minute.
        words = f"all {budget.limit} of this minute spent; starts and stops go first"
    return part(is_well=True, words=words)
