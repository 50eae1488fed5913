"""Findings from one pass to the next: only what is seen without a break becomes evidence."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models.functions import Now

from pool.reconciler.candidate import Candidate
from slots.finding import Finding, FindingKind

NO_LONGER_SEEN = "No longer seen"
# After more missed passes than this, a finding counts from the start again.
MISSED_PASSES = 4
# A worker's task may take a minute: repairs end well before, and the next pass continues.
LONGEST_PASS = timedelta(seconds=25)
# What a pass notes on a finding that it has seen before.
NOTED = (
    "reason", "evidence", "decision", "held_back", "sightings", "first_seen_at", "last_seen_at",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Found:
    """A candidate together with its finding from earlier passes."""

    candidate: Candidate
    finding: Finding

    @property
    def is_due(self) -> bool:
        often_enough = self.finding.sightings >= self.candidate.times
        return self.candidate.repair is not None and often_enough and self._has_lasted()

    def _has_lasted(self) -> bool:
        first, last = self.finding.first_seen_at, self.finding.last_seen_at
        proof = self.candidate.proof
        if proof is not None and last - max(first, proof.since) >= proof.lasting:
            return True
        return last - first >= self.candidate.lasting


def compare_with_earlier(candidates: Iterable[Candidate], *, at: datetime) -> list[Found]:
    """Match the candidates with the open findings. Nothing is written."""
    earlier = {(f.kind, f.subject, f.epoch): f for f in Finding.objects.filter(ended_at=None)}
    found = []
    for seen in candidates:
        finding = earlier.get((seen.kind, seen.subject, seen.epoch)) or _new(seen, at=at)
        _note_observation(finding, seen, at=at)
        found.append(Found(candidate=seen, finding=finding))
    return found


def _new(seen: Candidate, *, at: datetime) -> Finding:
    return Finding(
        kind=seen.kind,
        subject=seen.subject[:150],
        name=seen.title[:150],
        epoch=seen.epoch,
        slot=seen.slot,
        bot_id=_bot_id(seen),
        platform=seen.platform,
        sightings=0,
        first_seen_at=at,
        last_seen_at=at,
    )


def longest_break() -> timedelta:
    """Between two passes. With a short interval, a long pass alone is not a break."""
    return MISSED_PASSES * settings.RECONCILE_INTERVAL + LONGEST_PASS


def _note_observation(finding: Finding, seen: Candidate, *, at: datetime) -> None:
    """Count it once more, or from the start after a break."""
    if at - finding.last_seen_at > longest_break():
        finding.first_seen_at, finding.sightings = at, 0
    if seen.contradicted_at is not None and seen.contradicted_at > finding.first_seen_at:
        finding.first_seen_at = min(seen.contradicted_at, at)
    finding.last_seen_at = max(at, finding.last_seen_at)
    finding.sightings += 1
    finding.reason, finding.evidence = seen.reason, seen.evidence
    finding.decision, finding.held_back = seen.decision, seen.held_back


def _bot_id(seen: Candidate) -> int | None:
    if seen.bot is not None:
        return seen.bot.pk
    return seen.slot.assigned_bot_id if seen.slot is not None else None


def remember(
    found: Iterable[Found], *, checked_for: Iterable[FindingKind], except_slots: Iterable[int] = ()
) -> None:
    """Save what was seen, and end the findings of these kinds that were not seen."""
    seen = []
    for each in found:
        # An operator may approve it at any time.
        each.finding.save(update_fields=NOTED if each.finding.pk else None)
        if each.finding.approved_at is not None and not each.finding.is_approved:
            _withdraw_approval(each.finding)
        seen.append(each.finding.pk)
    checked = Finding.objects.filter(ended_at=None, kind__in=list(checked_for))
    unseen = checked.exclude(pk__in=seen).exclude(slot_id__in=list(except_slots))
    unseen.update(ended_at=Now(), outcome=NO_LONGER_SEEN)


def _withdraw_approval(finding: Finding) -> None:
    """The evidence is not what the operator saw."""
    same = Finding.objects.filter(pk=finding.pk, approved_evidence=finding.approved_evidence)
    same.update(approved_at=None, approved_by="", approval_reason="", approved_evidence="")
    finding.approved_at = None


def record_repair(finding: Finding, outcome: str, *, actor: str, done: bool) -> None:
    """Record the outcome. A repair that is done ends its finding; next time it is a new one."""
    Finding.objects.filter(pk=finding.pk).update(
        outcome=outcome, actor=actor, **({"acted_at": Now(), "ended_at": Now()} if done else {})
    )
