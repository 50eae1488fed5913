"""The reconciler: compares the rows with each other and with Coolify, and repairs.

It acts on positive evidence that has lasted, one slot at a time under its lease, through
pool.lifecycle only. What it sees is kept as findings (findings.py): evidence adds up from pass to
pass. A snapshot that failed, or from which too much is missing, starts and ends no finding.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings

from bots.models import Bot
from bots.status import RUNNING
from coolify.client import Coolify
from coolify.shared import shared_coolify
from core.clock import database_now
from core.jobs.jobs import ask
from core.leases import LeaseNotAcquired, holding_lease
from pool.controller.descriptions import slots_with_another_description
from pool.controller.observe import Snapshot, observe
from pool.reconciler import container_checks, heartbeats, orphans, row_checks
from pool.reconciler.candidate import ACTOR, Candidate, Repair
from pool.reconciler.findings import Found, compare_with_earlier, record_repair, remember
from pool.reconciler.hearing import hearing_since
from pool.reconciler.repairs import attempt
from slots.correlation import as_bot_of_finding
from slots.finding import FindingKind
from slots.locks import slot_key
from slots.models import Slot
from slots.status import SlotStatus

logger = logging.getLogger(__name__)

LEASE = "reconciler"
# So many slots may always be repaired, however small the pool.
ALWAYS_ALLOWED = 2
# A worker's task may take a minute: repairs end well before, and the next pass continues.
LONGEST_PASS = 25.0


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
        return _pass(dry_run=True, allow_many=allow_many)
    try:
        with holding_lease(LEASE, ttl=settings.LOCK_TTL, tries=1):
            return _pass(dry_run=False, allow_many=allow_many)
    except LeaseNotAcquired:
        return Report(dry_run=False, skipped="Another pass is running")


def _pass(*, dry_run: bool, allow_many: bool) -> Report:
    report = Report(dry_run=dry_run)
    candidates, kinds, at = _see(shared_coolify(), report)
    found = compare_with_earlier(candidates, at=at)
    due = [each for each in found if each.is_due]
    report.stopped = "" if allow_many else _too_many(due)
    if report.stopped:
        found += compare_with_earlier([_stop_sign(report.stopped)], at=at)
        logger.error("[Reconciler] %s", report.stopped)
    report.lines = [Line(found=each, outcome=_intention(each, report)) for each in found]
    if not dry_run:
        ask(slot_key(slot.pk) for slot in slots_with_another_description())
        remember(found, checked_for=kinds)
        if not report.stopped:
            _repair(report.lines)
    return report


# --- Checking --------------------------------------------------------------------------------


def _see(coolify: Coolify, report: Report) -> tuple[list[Candidate], list[FindingKind], datetime]:
    """What is wrong, which kinds of findings were checked for, and when."""
    snapshot = observe(coolify)
    now = database_now()
    hearing = _hearing_since()
    candidates = list(row_checks.wrong_rows(now))
    kinds = [*row_checks.KINDS, *heartbeats.KINDS, FindingKind.TOO_MANY]
    if hearing is not None:
        candidates += heartbeats.silent_bots(hearing_since=hearing, now=now)
    if snapshot is None:
        report.observed = "Coolify could not be observed: only our own rows were compared"
    elif missing := too_many_missing(snapshot):
        report.observed = "Coolify's list is suspiciously short: only our own rows were compared"
        candidates.append(_short_list(missing))
    else:
        report.observed = f"Coolify lists {len(snapshot.applications)} applications"
        candidates += container_checks.wrong_containers(snapshot, coolify, hearing_since=hearing)
        candidates += orphans.unknown_applications(snapshot)
        kinds += [*container_checks.KINDS, *orphans.KINDS, FindingKind.SHORT_LIST]
    return candidates, kinds, now


def _hearing_since() -> datetime | None:
    if not Bot.objects.filter(status__in=RUNNING).exists():
        return None
    since = hearing_since()
    if since is None:
        logger.warning("[Reconciler] No proof that bots can reach Botpool: silence is not judged")
    return since


def too_many_missing(snapshot: Snapshot) -> list[str]:
    """The slots whose applications the list lacks, if they are too many to be true."""
    slots = Slot.objects.exclude(coolify_uuid="").order_by("name")
    names = [slot.name for slot in slots if slot.coolify_uuid not in snapshot.applications]
    return names if is_too_many(len(names), of=slots.count()) else []


def _short_list(missing: list[str]) -> Candidate:
    return Candidate(
        kind=FindingKind.SHORT_LIST,
        reason=f"Coolify's list lacks the applications of {len(missing)} slots",
        evidence={"missing": missing},
        decision="Ignore this list",
    )


# --- Stopping mass repairs -------------------------------------------------------------------


def is_too_many(count: int, *, of: int) -> bool:
    return count > ALWAYS_ALLOWED and 100 * count > settings.RECONCILE_MAX_PERCENT * of


def _too_many(due: list[Found]) -> str:
    touched = {each.candidate.subject for each in due if each.candidate.touches_meeting}
    busy = Slot.objects.filter(status=SlotStatus.BUSY).count()
    if not is_too_many(len(touched), of=busy):
        return ""
    return (
        f"This pass would change {len(touched)} of {busy} busy slots, more than "
        f"{settings.RECONCILE_MAX_PERCENT} %: nothing is changed. See manage.py reconcile --dry-run"
    )


def _stop_sign(reason: str) -> Candidate:
    return Candidate(kind=FindingKind.TOO_MANY, reason=reason, decision="Change nothing")


# --- Repairing -------------------------------------------------------------------------------


def _intention(found: Found, report: Report) -> str:
    if report.stopped:
        return "Nothing is changed in this pass"
    if found.is_due:
        return "Would be done now"
    if found.candidate.repair is None:
        return "Only reported"
    return f"Waits until it has lasted {found.candidate.lasting.total_seconds():g} s"


def _repair(lines: list[Line]) -> None:
    end = time.monotonic() + LONGEST_PASS
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
    for line in lines:
        if line.found.is_due and line.found.candidate.repair is not None:
            yield line, line.found.candidate.repair
