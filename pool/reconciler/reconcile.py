"""The reconciler: compares the rows with each other and with Coolify, and repairs.

It acts on positive evidence that has lasted, one slot at a time under its lease, through
pool.lifecycle only. What it sees is kept as findings (findings.py), so that evidence adds up
from pass to pass; a look that failed, or that lacks too much, adds nothing and ends nothing.
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
from core.leases import LeaseNotAcquired, holding_lease
from pool.controller.observe import Look
from pool.controller.passes import learn_from, take_look
from pool.reconciler import container_checks, heartbeats, orphans, row_checks
from pool.reconciler.candidate import ACTOR, Repair, Sighting
from pool.reconciler.findings import Found, compare_with_earlier, record_deed, remember
from pool.reconciler.hearing import hearing_since
from pool.reconciler.repairs import attempt
from slots.correlation import story_of_finding
from slots.finding import FindingKind
from slots.models import Slot
from slots.status import HELD

logger = logging.getLogger(__name__)

LEASE = "reconciler"
# So few may always be touched, however small the pool.
ALWAYS_ALLOWED = 2
# A worker's task may take a minute: repairs end well before, and the next pass goes on.
LONGEST_PASS = 25.0


@dataclass
class Line:
    """One finding of a pass: what, why, what is done about it and what came of it."""

    found: Found
    outcome: str = ""


@dataclass
class Report:
    dry_run: bool
    looked: str = ""
    skipped: str = ""
    stopped: str = ""
    lines: list[Line] = field(default_factory=list)


def run_reconciler() -> None:
    """The periodic work."""
    reconcile()


def reconcile(*, dry_run: bool = False, allow_many: bool = False) -> Report:
    """One pass. A dry run touches no slot and no bot, and adds to no evidence."""
    if dry_run:
        return _pass(dry_run=True, allow_many=allow_many)
    try:
        with holding_lease(LEASE, ttl=settings.LOCK_TTL, tries=1):
            return _pass(dry_run=False, allow_many=allow_many)
    except LeaseNotAcquired:
        return Report(dry_run=False, skipped="Another pass is under way")


def _pass(*, dry_run: bool, allow_many: bool) -> Report:
    report = Report(dry_run=dry_run)
    sightings, kinds, at = _see(shared_coolify(), report)
    found = compare_with_earlier(sightings, at=at)
    due = [each for each in found if each.is_due]
    report.stopped = "" if allow_many else _too_many(due)
    if report.stopped:
        found += compare_with_earlier([_stop_sign(report.stopped)], at=at)
        logger.error("[Reconciler] %s", report.stopped)
    report.lines = [Line(found=each, outcome=_intention(each, report)) for each in found]
    if not dry_run:
        remember(found, looked_for=kinds)
        if not report.stopped:
            _repair(report.lines)
    return report


# --- Seeing ----------------------------------------------------------------------------------


def _see(coolify: Coolify, report: Report) -> tuple[list[Sighting], list[FindingKind], datetime]:
    """What is wrong, which kinds of wrong were looked for, and when."""
    look = take_look(coolify)
    now = database_now()
    hearing = _hearing_since()
    sightings = list(row_checks.wrong_rows(now))
    kinds = [*row_checks.KINDS, *heartbeats.KINDS, FindingKind.TOO_MANY]
    if hearing is not None:
        sightings += heartbeats.silent_bots(hearing_since=hearing, now=now)
    if look is None:
        report.looked = "Coolify could not be looked at: only our own rows were compared"
    elif missing := too_many_missing(look):
        report.looked = "Coolify's list is suspiciously short: only our own rows were compared"
        sightings.append(_short_list(missing))
    else:
        report.looked = f"Coolify lists {len(look.applications)} applications"
        if not report.dry_run:
            # So that this look saves the next one.
            learn_from(look, coolify, until=time.monotonic() + LONGEST_PASS)
        sightings += container_checks.wrong_containers(look, coolify, hearing_since=hearing)
        sightings += orphans.unknown_applications(look)
        kinds += [*container_checks.KINDS, *orphans.KINDS, FindingKind.SHORT_LIST]
    return sightings, kinds, now


def _hearing_since() -> datetime | None:
    if not Bot.objects.filter(status__in=RUNNING).exists():
        return None
    since = hearing_since()
    if since is None:
        logger.warning("[Reconciler] Nothing shows that bots can reach Botpool: none is judged")
    return since


def too_many_missing(look: Look) -> list[str]:
    """The slots whose applications a list lacks, if they are too many to be believed."""
    slots = Slot.objects.exclude(coolify_uuid="").order_by("name")
    names = [slot.name for slot in slots if slot.coolify_uuid not in look.applications]
    return names if is_too_many(len(names), of=slots.count()) else []


def _short_list(missing: list[str]) -> Sighting:
    return Sighting(
        kind=FindingKind.SHORT_LIST,
        reason=f"Coolify's list lacks the applications of {len(missing)} slots",
        evidence={"missing": missing},
        decision="Believe nothing of this list",
    )


# --- Stopping in time ------------------------------------------------------------------------


def is_too_many(count: int, *, of: int) -> bool:
    return count > ALWAYS_ALLOWED and 100 * count > settings.RECONCILE_MAX_PERCENT * of


def _too_many(due: list[Found]) -> str:
    touched = {each.sighting.subject for each in due if each.sighting.touches_held_slot}
    held = Slot.objects.filter(status__in=HELD).count()
    if not is_too_many(len(touched), of=held):
        return ""
    return (
        f"This pass would touch {len(touched)} of {held} held slots, more than "
        f"{settings.RECONCILE_MAX_PERCENT} %: nothing is touched. See manage.py reconcile --dry-run"
    )


def _stop_sign(reason: str) -> Sighting:
    return Sighting(kind=FindingKind.TOO_MANY, reason=reason, decision="Touch nothing")


# --- Repairing -------------------------------------------------------------------------------


def _intention(found: Found, report: Report) -> str:
    if report.stopped:
        return "Nothing is touched in this pass"
    if found.is_due:
        return "Would be done now"
    if found.sighting.repair is None:
        return "Only told"
    return f"Waits until it has lasted {found.sighting.lasting.total_seconds():g} s"


def _repair(lines: list[Line]) -> None:
    end = time.monotonic() + LONGEST_PASS
    for line, repair in _due_repairs(lines):
        if time.monotonic() > end:
            line.outcome = "Left to the next pass"
            continue
        with story_of_finding(line.found.finding):
            _do(repair, line)


def _do(repair: Repair, line: Line) -> None:
    deed = attempt(repair)
    line.outcome = deed.outcome
    record_deed(line.found.finding, deed.outcome, actor=ACTOR, done=deed.done)
    logger.info(
        "[Reconciler] %s | why=%r | did=%r",
        line.found.finding,
        line.found.sighting.reason,
        deed.outcome,
    )


def _due_repairs(lines: list[Line]) -> Iterator[tuple[Line, Repair]]:
    for line in lines:
        if line.found.is_due and line.found.sighting.repair is not None:
            yield line, line.found.sighting.repair
