"""Doubts about Coolify: open findings, so that every process and the overview see them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Now

from coolify.client.errors import CoolifyError
from slots.finding import Finding, FindingKind

KINDS = (FindingKind.WRONG_TEAM, FindingKind.SHORT_LIST)
SUBJECT = "coolify"


class NotBelieved(CoolifyError):
    """Coolify's answer cannot be right, so nothing follows from it. Try again later."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    kind: FindingKind
    reason: str
    check: str  # what an operator can check
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> NotBelieved:
        return NotBelieved(f"{self.reason}. {self.check}")


def note_doubt(doubt: Doubt) -> None:
    end_doubts(kind for kind in KINDS if kind != doubt.kind)
    same = {"kind": doubt.kind, "subject": SUBJECT, "epoch": 0, "ended_at": None}
    words = {
        "name": "Coolify",
        "reason": doubt.reason,
        "evidence": doubt.evidence,
        "decision": doubt.check,
    }
    finding, is_new = Finding.objects.get_or_create(**same, defaults=words)
    if not is_new:
        sightings = finding.sightings + 1
        Finding.objects.filter(pk=finding.pk).update(
            last_seen_at=Now(), sightings=sightings, **words
        )


def end_doubts(kinds: Iterable[FindingKind] = KINDS) -> None:
    open_ones = Finding.objects.filter(kind__in=list(kinds), subject=SUBJECT, ended_at=None)
    open_ones.update(ended_at=Now(), outcome="Coolify shows what is ours again")


def open_doubt() -> Doubt | None:
    return _first(Finding.objects.filter(kind__in=KINDS, ended_at=None))


def is_doubted(kind: FindingKind) -> bool:
    return Finding.objects.filter(kind=kind, subject=SUBJECT, ended_at=None).exists()


def recent_doubt() -> Doubt | None:
    """One that was confirmed a moment ago, which asking again would only confirm."""
    since = Now() - min(timedelta(seconds=10), settings.RECONCILE_INTERVAL / 3)
    return _first(Finding.objects.filter(kind__in=KINDS, ended_at=None, last_seen_at__gt=since))


def _first(findings: QuerySet[Finding]) -> Doubt | None:
    found = findings.order_by("-last_seen_at").first()
    if found is None:
        return None
    return Doubt(
        kind=FindingKind(found.kind),
        reason=found.reason,
        check=found.decision,
        evidence=found.evidence,
    )
