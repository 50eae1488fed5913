"""Findings from one pass to the next: a sighting grows into evidence only without a break."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models.functions import Now

from pool.reconciler.candidate import Sighting
from slots.finding import Finding, FindingKind

NOT_SEEN_ANY_MORE = "Not seen any more"
# Passes that may be missed before two sightings count as two findings.
MISSED_PASSES = 4


@dataclass(frozen=True, kw_only=True)
class Found:
    """A sighting together with what is known of it from the passes before."""

    sighting: Sighting
    finding: Finding

    @property
    def is_due(self) -> bool:
        sighting, finding = self.sighting, self.finding
        lasted = finding.last_seen_at - finding.first_seen_at
        long_enough = lasted >= sighting.lasting and finding.sightings >= sighting.looks
        return sighting.repair is not None and long_enough


def compare_with_earlier(sightings: Iterable[Sighting], *, at: datetime) -> list[Found]:
    """Join what is seen now to the open findings. Nothing is written."""
    earlier = {(f.kind, f.subject, f.epoch): f for f in Finding.objects.filter(ended_at=None)}
    found = []
    for seen in sightings:
        finding = earlier.get((seen.kind, seen.subject, seen.epoch)) or _new(seen, at=at)
        _note_sighting(finding, seen, at=at)
        found.append(Found(sighting=seen, finding=finding))
    return found


def _new(seen: Sighting, *, at: datetime) -> Finding:
    return Finding(
        kind=seen.kind,
        subject=seen.subject[:150],
        name=seen.title[:150],
        epoch=seen.epoch,
        slot=seen.slot,
        bot_id=_bot_id(seen),
        sightings=0,
        first_seen_at=at,
        last_seen_at=at,
    )


def _note_sighting(finding: Finding, seen: Sighting, *, at: datetime) -> None:
    """Seen once more; or as if for the first time, where the thread is broken."""
    if at - finding.last_seen_at > MISSED_PASSES * settings.RECONCILE_INTERVAL:
        finding.first_seen_at, finding.sightings = at, 0
    if seen.contradicted_at is not None and seen.contradicted_at > finding.first_seen_at:
        finding.first_seen_at = min(seen.contradicted_at, at)
    finding.last_seen_at = max(at, finding.last_seen_at)
    finding.sightings += 1
    finding.reason, finding.evidence = seen.reason, seen.evidence
    finding.decision = seen.decision


def _bot_id(seen: Sighting) -> int | None:
    if seen.bot is not None:
        return seen.bot.pk
    return seen.slot.assigned_bot_id if seen.slot is not None else None


def remember(found: Iterable[Found], *, looked_for: Iterable[FindingKind]) -> None:
    """Keep what was seen, and end the findings of these kinds that were not."""
    seen = []
    for each in found:
        each.finding.save()
        seen.append(each.finding.pk)
    Finding.objects.filter(ended_at=None, kind__in=list(looked_for)).exclude(pk__in=seen).update(
        ended_at=Now(), outcome=NOT_SEEN_ANY_MORE
    )


def record_deed(finding: Finding, outcome: str, *, actor: str, done: bool) -> None:
    """What came of it. Once it is done, the same sight would be a new finding."""
    Finding.objects.filter(pk=finding.pk).update(
        outcome=outcome, actor=actor, **({"acted_at": Now(), "ended_at": Now()} if done else {})
    )
