"""Deleting orphans: applications that have belonged to no slot for a long time.

An orphan is deleted only if every pass of the last hour saw it without a slot, it is certainly in
our own environment, no live bot ran in it last, and there are few orphans. A Botpool that has lost
its rows would otherwise delete the whole pool.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.conf import settings

from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotFound
from coolify.shared import shared_coolify
from core.clock import database_now
from core.leases import LeaseNotAcquired, holding_lease
from pool.controller.applications import our_environment
from pool.controller.belief.answers import is_too_many, review
from pool.controller.observe import Snapshot, observe
from pool.reconciler.findings import Found, compare_with_earlier, record_repair, remember
from pool.reconciler.orphans import KINDS, has_our_name, unknown_applications
from pool.reconciler.reconcile import LEASE
from slots.finding import Finding
from slots.locks import with_status_lock
from slots.models import Slot

logger = logging.getLogger(__name__)

ACTOR = "cleanup"


@dataclass
class Cleanup:
    dry_run: bool
    stopped: str = ""
    lines: list[tuple[Finding, str]] = field(default_factory=list)


def cleanup_orphaned_slots(*, dry_run: bool = False) -> Cleanup:
    """Delete the orphans that have lasted long enough; report the others."""
    try:
        with holding_lease(LEASE, ttl=settings.LOCK_TTL):
            return _clean_up(shared_coolify(), dry_run=dry_run)
    except LeaseNotAcquired:
        return Cleanup(dry_run=dry_run, stopped="The reconciler is running: try again")
    except CoolifyError as error:
        return Cleanup(dry_run=dry_run, stopped=f"Coolify could not be read: {error}")


def _clean_up(coolify: Coolify, *, dry_run: bool) -> Cleanup:
    cleanup = Cleanup(dry_run=dry_run)
    snapshot = observe(coolify)
    if snapshot is None:
        cleanup.stopped = "Coolify's list could not be read"
        return cleanup
    if doubt := review(coolify, known=snapshot.known, listed=snapshot.applications):
        cleanup.stopped = doubt.reason
        return cleanup
    found = compare_with_earlier(unknown_applications(snapshot), at=database_now())
    if not dry_run:
        remember(found, checked_for=KINDS)
    environment = our_environment(coolify)
    removable = [each for each in found if not _objection(each, environment=environment)]
    cleanup.stopped = _too_many(removable, snapshot)
    for each in found:
        objection = cleanup.stopped or _objection(each, environment=environment)
        outcome = objection or _remove(each.finding, coolify, dry_run=dry_run)
        cleanup.lines.append((each.finding, outcome))
    return cleanup


def _objection(found: Found, *, environment: int | None) -> str:
    """Why it must be kept; empty if it may be deleted."""
    evidence, finding = found.finding.evidence, found.finding
    lasted = finding.last_seen_at - finding.first_seen_at
    if environment is None or evidence["environment"] != environment:
        return "Kept: it is not known to be in our environment"
    if evidence["lastBotLives"]:
        return f"Kept: Bot #{evidence['lastBot']} ran in it and has not ended"
    if lasted < found.candidate.lasting or finding.sightings < found.candidate.times:
        return f"Kept: seen for {lasted.total_seconds():.0f} s, deleted after {_kept_for()} s"
    return ""


def _kept_for() -> str:
    return f"{settings.ORPHAN_KEPT_FOR.total_seconds():g}"


def _too_many(removable: list[Found], snapshot: Snapshot) -> str:
    ours = sum(has_our_name(application) for application in snapshot.applications.values())
    if not is_too_many(len(removable), of=ours):
        return ""
    return f"{len(removable)} of {ours} applications belong to no slot: too many to be true"


def _remove(finding: Finding, coolify: Coolify, *, dry_run: bool) -> str:
    if dry_run:
        return "Would be deleted now"
    try:
        with _no_slot_takes_it_over(finding):
            outcome = _delete(finding.subject.removeprefix("application:"), coolify)
    except LeaseNotAcquired:
        return "Kept: another process is working on the slot of that name"
    except _IsBeingMade:
        return "Kept: the slot of that name is getting its application"
    logger.info("[Cleanup] %s: %s", finding, outcome)
    record_repair(finding, outcome, actor=ACTOR, done=True)
    return outcome


def _delete(uuid: str, coolify: Coolify) -> str:
    try:
        coolify.delete_application(uuid)
    except NotFound:
        return "Already gone"
    return "Deletion requested"


class _IsBeingMade(Exception):
    """A slot has taken over this application, or is about to."""


@contextmanager
def _no_slot_takes_it_over(finding: Finding) -> Iterator[None]:
    """Hold the lease of the slot of that name: without it, no process can make the slot take over
    this application after a lost answer."""
    slot = Slot.objects.filter(name=finding.name).first()
    if slot is None:
        yield
        return
    with with_status_lock(slot, settings.RECONCILE_LOCK_TTL, tries=1):
        slot.refresh_from_db()
        has_it = finding.subject == f"application:{slot.coolify_uuid}"
        if has_it or slot.application_asked_at is not None:
            raise _IsBeingMade
        yield
