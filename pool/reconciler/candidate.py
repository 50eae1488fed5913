"""What one pass sees that is not as it should be, and what it would do about it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bots.models import Bot
from slots.finding import FindingKind
from slots.models import Slot

ACTOR = "reconciler"


@dataclass(frozen=True)
class Deed:
    """What came of a repair; not `done` where it turned out that there is nothing to do."""

    done: bool
    outcome: str


Repair = Callable[[], Deed]


@dataclass(frozen=True, kw_only=True)
class Sighting:
    kind: FindingKind
    reason: str  # what was seen, in words
    evidence: dict[str, Any] = field(default_factory=dict)
    slot: Slot | None = None
    bot: Bot | None = None
    application: str = ""  # its uuid, where it belongs to no slot
    name: str = ""
    # What to do about it, and how. None: it is only told.
    decision: str = ""
    repair: Repair | None = None
    # How long it must have been seen without a break, and by how many looks.
    lasting: timedelta = timedelta()
    looks: int = 1
    # Something was heard at this time that speaks against it: it lasts since then at most.
    contradicted_at: datetime | None = None

    @property
    def subject(self) -> str:
        if self.slot is not None:
            return f"slot:{self.slot.pk}"
        if self.bot is not None:
            return f"bot:{self.bot.pk}"
        return f"application:{self.application}" if self.application else "pool"

    @property
    def title(self) -> str:
        return self.name or str(self.slot or self.bot or "the pool")

    @property
    def epoch(self) -> int:
        return self.slot.epoch if self.slot is not None else 0

    @property
    def touches_held_slot(self) -> bool:
        held = self.slot is not None and self.slot.assigned_bot_id is not None
        return held and self.kind != FindingKind.DESCRIPTION_DIFFERS
