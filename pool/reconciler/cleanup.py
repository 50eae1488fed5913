"""Removing applications that belong to no slot, long after they were first seen so.

Nothing here is in a hurry: an application is deleted only if the reconciler has seen it without
a slot for an hour and without a break, if it certainly lies in our own environment, if no bot
that lives ever ran in it, and if there are few of them. A Botpool that has lost its rows would
take the whole pool for rubbish.
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
from pool.controller.observe import Look
from pool.controller.passes import take_look
from pool.reconciler.findings import Found, compare_with_earlier, record_deed, remember
from pool.reconciler.orphans import KINDS, has_our_name, unknown_applications
from pool.reconciler.reconcile import LEASE, is_too_many, too_many_missing
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


def clean_up(*, dry_run: bool = False) -> Cleanup:
    """Delete the applications of no slot that have lasted long enough; tell of the others."""
    try:
        with holding_lease(LEASE, ttl=settings.LOCK_TTL):
            return _clean_up(shared_coolify(), dry_run=dry_run)
    except LeaseNotAcquired:
        return Cleanup(dry_run=dry_run, stopped="The reconciler is at work: try again")
    except CoolifyError as error:
        return Cleanup(dry_run=dry_run, stopped=f"Coolify does not answer properly: {error}")


def _clean_up(coolify: Coolify, *, dry_run: bool) -> Cleanup:
    cleanup = Cleanup(dry_run=dry_run)
    look = take_look(coolify)
    if look is None or too_many_missing(look):
        cleanup.stopped = "Coolify's list could not be read, or lacks applications of ours"
        return cleanup
    found = compare_with_earlier(unknown_applications(look), at=database_now())
    if not dry_run:
        remember(found, looked_for=KINDS)
    environment = our_environment(coolify)
    removable = [each for each in found if not _objection(each, environment=environment)]
    cleanup.stopped = _too_many(removable, look)
    for each in found:
        objection = cleanup.stopped or _objection(each, environment=environment)
        outcome = objection or _remove(each.finding, coolify, dry_run=dry_run)
        cleanup.lines.append((each.finding, outcome))
    return cleanup


def _objection(found: Found, *, environment: int | None) -> str:
    """Why it must not be removed; empty if it may."""
    evidence, finding = found.finding.evidence, found.finding
    lasted = finding.last_seen_at - finding.first_seen_at
    if environment is None or evidence["environment"] != environment:
        return "Kept: it is not known to lie in our environment"
    if evidence["lastBotLives"]:
        return f"Kept: Bot #{evidence['lastBot']} ran in it and has not ended"
    if lasted < found.sighting.lasting or finding.sightings < found.sighting.looks:
        return f"Kept: seen for {lasted.total_seconds():.0f} s, removed after {_kept_for()} s"
    return ""


def _kept_for() -> str:
    return f"{settings.ORPHAN_KEPT_FOR.total_seconds():g}"


def _too_many(removable: list[Found], look: Look) -> str:
    ours = sum(has_our_name(application) for application in look.applications.values())
    if not is_too_many(len(removable), of=ours):
        return ""
    return f"{len(removable)} of {ours} applications belong to no slot: too many to be believed"


def _remove(finding: Finding, coolify: Coolify, *, dry_run: bool) -> str:
    if dry_run:
        return "Would be deleted now"
    try:
        with _nobody_makes_it(finding):
            outcome = _delete(finding.subject.removeprefix("application:"), coolify)
    except LeaseNotAcquired:
        return "Kept: somebody works on the slot of that name"
    except _IsBeingMade:
        return "Kept: the slot of that name gets an application now"
    logger.info("[Cleanup] %s: %s", finding, outcome)
    record_deed(finding, outcome, actor=ACTOR, done=True)
    return outcome


def _delete(uuid: str, coolify: Coolify) -> str:
    try:
        coolify.delete_application(uuid)
    except NotFound:
        return "It is gone already"
    return "Deletion asked for"


class _IsBeingMade(Exception):
    """A slot has come by this application, or is about to."""


@contextmanager
def _nobody_makes_it(finding: Finding) -> Iterator[None]:
    """After a lost answer a slot takes over the application that bears its name. Whoever does
    that holds the slot's lease: while we hold it, nobody does."""
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
