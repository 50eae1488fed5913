"""The breaker: it holds back repairs that could end many running meetings at once.

A repair is classed by what it could destroy, if its evidence were wrong:

    nothing             never held back
    a slot              a few of a kind and platform in each pass, all of them in the end
    a running meeting   held back if there are too many of a kind and platform at once

What is held back waits until an operator approves it (approvals.py) or its evidence goes away. Each
pass judges anew.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from bots.status import Platform
from pool.controller.belief.answers import is_too_many
from pool.reconciler.candidate import Candidate
from pool.reconciler.findings import Found, longest_break
from slots.finding import Finding, FindingKind
from slots.models import Slot
from slots.status import SlotStatus

SLOTS_IN_A_PASS = 10


class Harm(Enum):
    NOTHING = "nothing"
    SLOT = "a slot"  # its container or application: the next start takes minutes
    MEETING = "a running meeting"


# A bot that has ended, or holds no slot, is told to leave anyway. One that only deploys has not
# joined a meeting: it calls before it does, and then its slot is busy.
HARM = {
    FindingKind.ENDED_BOT_HOLDS_SLOT: Harm.NOTHING,
    FindingKind.BOT_WITHOUT_SLOT: Harm.NOTHING,
    FindingKind.BOT_WAITS_NOWHERE: Harm.NOTHING,
    FindingKind.ENTRY_WITHOUT_WAITER: Harm.NOTHING,
    FindingKind.DESCRIPTION_DIFFERS: Harm.NOTHING,
    FindingKind.STUCK_DEPLOYING: Harm.SLOT,
    FindingKind.STUCK_STOPPING: Harm.SLOT,
    FindingKind.CONTAINER_LEFT: Harm.SLOT,
    FindingKind.APPLICATION_GONE: Harm.SLOT,
    # The evidence is our own clock, and the bot was told to leave: one that listens is gone.
    FindingKind.MEETING_TOO_LONG: Harm.SLOT,
    FindingKind.HEARTBEAT_LOST: Harm.MEETING,
    FindingKind.CONTAINER_GONE: Harm.MEETING,
    FindingKind.CRASH_LOOP: Harm.MEETING,
}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Repairs of one kind on one platform that are held back."""

    kind: FindingKind
    platform: str
    found: list[Found]
    count: int
    busy: int

    @property
    def held(self) -> list[Found]:
        return [each for each in self.found if not each.finding.is_approved]

    @property
    def share(self) -> str:
        platform = Platform(self.platform).label if self.platform else "unknown"
        share = f"{self.count} of {self.busy} busy {platform} slots at once"
        return f"{share}, more than {settings.RECONCILE_MAX_PERCENT} %"

    @property
    def reason(self) -> str:
        return f"{self.kind.label}: {self.share}"

    @property
    def candidate(self) -> Candidate:
        return Candidate(
            kind=FindingKind.TOO_MANY,
            batch=f"{self.kind}:{self.platform}",
            name=f"{self.kind.label} ({self.platform})",
            reason=self.reason,
            evidence={"kind": self.kind, "platform": self.platform, "heldBack": len(self.held)},
            decision="Hold these repairs back until an operator approves them",
        )


def hold_back(found: Iterable[Found]) -> list[Batch]:
    """Mark the findings whose repairs are held back, and return those batches."""
    batches = [batch for batch in _batches(found) if is_too_many(batch.count, of=batch.busy)]
    for batch in batches:
        for each in batch.held:
            each.finding.held_back = batch.share
    return [batch for batch in batches if batch.held]


def _batches(found: Iterable[Found]) -> Iterable[Batch]:
    by_kind: dict[tuple[FindingKind, str], list[Found]] = defaultdict(list)
    for each in found:
        if each.is_due and harm_of(each.candidate) is Harm.MEETING:
            by_kind[each.candidate.kind, each.candidate.platform].append(each)
    for (kind, platform), members in by_kind.items():
        done = _lately_done(kind, platform, members)
        busy = Slot.objects.filter(status=SlotStatus.BUSY, platform=platform).count()
        yield Batch(
            kind=kind,
            platform=platform,
            found=members,
            count=len(members) + done,
            busy=busy + done,
        )


def _lately_done(kind: FindingKind, platform: str, members: list[Found]) -> int:
    """Repairs of the last passes count, too: a fault may reach two bots in each. So do those that
    an operator approved since the batch began: what was not approved is to wait."""
    lately = Q(acted_at__gt=Now() - longest_break())
    began = min(each.finding.first_seen_at for each in members)
    approved = Q(approved_at__isnull=False, acted_at__gt=began)
    done = Finding.objects.filter(lately | approved, kind=kind, platform=platform)
    return done.count()


def harm_of(candidate: Candidate) -> Harm:
    return HARM.get(candidate.kind, Harm.MEETING)
