"""A candidate for a finding: what one pass found wrong, and how to repair it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bots.models import Bot
from slots.finding import FindingKind
from slots.models import Slot

ACTOR = "reconciler"


@dataclass(frozen=True)
class RepairResult:
    """The result of a repair; not `done` if nothing was changed."""

    done: bool
    outcome: str


Repair = Callable[[], RepairResult]


@dataclass(frozen=True)
class Proof:
    """Makes a shorter time enough: so long, counted from `since`."""

    since: datetime
    lasting: timedelta


@dataclass(frozen=True, kw_only=True)
class Candidate:
    kind: FindingKind
    reason: str  # what is wrong, in words
    evidence: dict[str, Any] = field(default_factory=dict)
    slot: Slot | None = None
    bot: Bot | None = None
    application: str = ""  # the uuid of an application without a slot
    batch: str = ""  # a batch of repairs that are held back
    name: str = ""
    # What to do about it, and how. None: it is only reported.
    decision: str = ""
    repair: Repair | None = None
    # Why it is repaired only if an operator approves it; empty if it needs no approval.
    held_back: str = ""
    # How long it must last without a break, and in how many passes, before it is repaired.
    lasting: timedelta = timedelta()
    times: int = 1
    proof: Proof | None = None
    # When the bot last proved it wrong: its time counts from then.
    contradicted_at: datetime | None = None

    @property
    def subject(self) -> str:
        if self.slot is not None:
            return f"slot:{self.slot.pk}"
        if self.bot is not None:
            return f"bot:{self.bot.pk}"
        if self.batch:
            return f"batch:{self.batch}"
        return f"application:{self.application}" if self.application else "pool"

    @property
    def title(self) -> str:
        return self.name or str(self.slot or self.bot or "the pool")

    @property
    def epoch(self) -> int:
        return self.slot.epoch if self.slot is not None else 0

    @property
    def platform(self) -> str:
        if self.slot is not None:
            return self.slot.platform
        return self.bot.platform if self.bot is not None else ""
