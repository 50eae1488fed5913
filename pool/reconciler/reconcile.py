"""The reconciler: compares the rows with each other and with Coolify, and repairs.

It acts on positive evidence that has lasted, one slot at a time under its lease, through
pool.lifecycle only. What it sees is kept as findings (findings.py): evidence adds up from pass to
pass. An answer of Coolify that is not believed starts and ends no finding (pool.controller.belief).
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings

from bots.models import Bot
from bots.status import RUNNING
from coolify.client import Coolify
from coolify.client.errors import CoolifyError
from coolify.shared import shared_coolify
from core.clock import database_now
from core.jobs.jobs import ask
from core.leases import HeldLease, LeaseLost, LeaseNotAcquired, extend_lease, holding_lease
from pool.controller.belief.answers import review
from pool.controller.descriptions import slots_with_another_description
from pool.controller.observe import Snapshot, observe
from pool.reconciler import container_checks, heartbeats, long_meetings, orphans, row_checks
from pool.reconciler.breaker import SLOTS_IN_A_PASS, Harm, harm_of, hold_back
from pool.reconciler.candidate import ACTOR, Candidate, Repair
from pool.reconciler.findings import (
    LONGEST_PASS,
    Found,
    compare_with_earlier,
    record_repair,
    remember,
)
from pool.reconciler.hearing import hearing_since, unheard
from pool.reconciler.repairs import attempt
from slots.correlation import as_bot_of_finding
from slots.finding import FindingKind
from slots.locks import slot_key

logger = logging.getLogger(__name__)

LEASE = "reconciler"


@dataclass
class Line:
    """One finding of a pass, and the outcome of its repair."""

    found: Found
    outcome: str = ""


@dataclass
class Report:
    dry_run: bool
    observed: str = ""
    skipped: str = ""
    stopped: str = ""
    lines: list[Line] = field(default_factory=list)


def run_reconciler() -> None:
    """Periodic work: one pass."""
    reconcile()


def reconcile(*, dry_run: bool = False, allow_many: bool = False) -> Report:
    """Run one pass. A dry run repairs nothing and changes no finding."""
    if dry_run:
        return _pass(None, allow_many=allow_many)
    try:
        with holding_lease(LEASE, ttl=settings.LOCK_TTL, tries=1) as lease:
            return _pass(lease, allow_many=allow_many)
    except LeaseNotAcquired:
        return Report(dry_run=False, skipped="Another pass is running")
    except LeaseLost:
        return Report(dry_run=False, skipped="Another pass has taken over")


def _pass(lease: HeldLease | None, *, allow_many: bool) -> Report:
    """Without the lease, it is a dry run."""
    report = Report(dry_run=lease is None)
    seen = _see(shared_coolify(), report)
    found = compare_with_earlier(seen.candidates, at=seen.at)
    batches = [] if allow_many else hold_back(found)
    report.stopped = "; ".join(batch.reason for batch in batches)
    if report.stopped:
        found += compare_with_earlier([batch.candidate for batch in batches], at=seen.at)
        logger.error("[Reconciler] Repairs are held back: %s", report.stopped)
    report.lines = [Line(found=each, outcome=_intention(each)) for each in found]
    if lease is not None:
        ask(slot_key(slot.pk) for slot in slots_with_another_description())
        extend_lease(lease)
        with lease.fenced():
            remember(found, checked_for=seen.kinds, except_slots=seen.in_doubt)
        _repair(report.lines)
    return report


# --- Checking --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What is wrong, which kinds of findings were checked for, and when. Slots in doubt were not
    checked against Coolify."""

    candidates: list[Candidate]
    kinds: list[FindingKind]
    in_doubt: list[int]
    at: datetime


def _see(coolify: Coolify, report: Report) -> _Seen:
    snapshot = _observe(coolify, report)
    now = database_now()
    candidates = list(row_checks.wrong_rows(now))
    candidates += long_meetings.overlong_meetings(now)
    kinds = [*row_checks.KINDS, *long_meetings.KINDS, *heartbeats.KINDS]
    kinds += [FindingKind.UNHEARD, FindingKind.TOO_MANY]
    bots_run = Bot.objects.filter(status__in=RUNNING).exists()
    hearing = hearing_since() if bots_run else None
    if hearing is not None:
        candidates += heartbeats.silent_bots(hearing_since=hearing, now=now)
    elif bots_run:
        candidates.append(unheard())
    if snapshot is not None:
        candidates += container_checks.wrong_containers(snapshot, coolify, hearing_since=hearing)
        kinds += container_checks.KINDS
    if snapshot is not None and not snapshot.is_doubted:
        candidates += orphans.unknown_applications(snapshot)
        kinds += orphans.KINDS
    in_doubt = container_checks.slots_in_doubt(snapshot) if snapshot is not None else []
    return _Seen(candidates=candidates, kinds=kinds, in_doubt=in_doubt, at=now)


def _observe(coolify: Coolify, report: Report) -> Snapshot | None:
    """None if Coolify could not be read, or does not even show our project."""
    snapshot = observe(coolify)
    if snapshot is None:
        report.observed = "Coolify could not be observed: only our own rows were compared"
        return None
    try:
        doubt = review(coolify, known=snapshot.known, listed=snapshot.applications)
    except CoolifyError as error:
        report.observed = f"Coolify could not be asked for our project: {error}"
        return None
    if doubt is None:
        report.observed = f"Coolify lists {len(snapshot.applications)} applications"
        return snapshot
    report.observed = f"Coolify is not believed: {doubt.reason}"
    if doubt.kind == FindingKind.WRONG_TEAM:
        return None
    return replace(snapshot, is_doubted=True)


# --- Repairing -------------------------------------------------------------------------------


def _intention(found: Found) -> str:
    if found.is_due and _waits_for_operator(found):
        return f"Held back: {found.finding.held_back}"
    if found.is_due:
        return "Would be done now"
    if found.candidate.repair is None:
        return "Only reported"
    return f"Waits until it has lasted {found.candidate.lasting.total_seconds():g} s"


def _waits_for_operator(found: Found) -> bool:
    return bool(found.finding.held_back) and not found.finding.is_approved


def _repair(lines: list[Line]) -> None:
    end = time.monotonic() + LONGEST_PASS.total_seconds()
    for line, repair in _due_repairs(lines):
        if time.monotonic() > end:
            line.outcome = "Left to the next pass"
            continue
        with as_bot_of_finding(line.found.finding):
            _do(repair, line)


def _do(repair: Repair, line: Line) -> None:
    result = attempt(repair)
    line.outcome = result.outcome
    record_repair(line.found.finding, result.outcome, actor=ACTOR, done=result.done)
    logger.info(
        "[Reconciler] %s | why=%r | did=%r",
        line.found.finding,
        line.found.candidate.reason,
        result.outcome,
    )


def _due_repairs(lines: list[Line]) -> Iterator[tuple[Line, Repair]]:
    """What is due and not held back, first what was not tried in vain before. Repairs that cost a
    slot come in small numbers."""
    so_far: Counter[tuple[FindingKind, str]] = Counter()
    for line in sorted(lines, key=lambda line: bool(line.found.finding.outcome)):
        candidate = line.found.candidate
        if candidate.repair is None or not line.found.is_due or _waits_for_operator(line.found):
            continue
        alike = candidate.kind, candidate.platform
        so_far[alike] += 1
        if harm_of(candidate) is Harm.SLOT and so_far[alike] > SLOTS_IN_A_PASS:
            line.outcome = "Left to the next pass"
            continue
        yield line, candidate.repair
