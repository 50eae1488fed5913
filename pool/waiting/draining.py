"""How far a platform is drained: who still runs, until when, and whether it is safe to work on."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from bots.status import Platform
from core.clock import database_now
from pool.waiting.estimate import Measured, time_left
from pool.waiting.measurements import measure_platform
from queues.models import QueueEntry
from slots.models import Pool, Slot
from slots.status import HELD, SlotStatus

# A bot is expected to have ended by then with this chance.
LIKELY = 0.9


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A slot that is not at rest, and when it is likely to be free."""

    slot: Slot
    free_by: datetime


@dataclass(frozen=True, kw_only=True)
class Draining:
    platform: Platform
    paused: Pool | None
    runners: list[Runner]
    errors: int
    waiting: int

    @property
    def last_end_at(self) -> datetime | None:
        return max((runner.free_by for runner in self.runners), default=None)

    @property
    def is_safe(self) -> bool:
        """No container runs, and none will start. What runs in a slot in error is not known."""
        return self.paused is not None and not self.runners and not self.errors


def draining(platform: Platform) -> Draining:
    seen = measure_platform(platform.value)
    slots = Slot.objects.filter(platform=platform).select_related("assigned_bot")
    active = slots.filter(status__in=(*HELD, SlotStatus.STOPPING)).order_by("status_since")
    now = database_now()
    runners = [_runner(slot, seen.measured, now) for slot in active]
    return Draining(
        platform=platform,
        paused=seen.paused,
        runners=sorted(runners, key=lambda runner: runner.free_by),
        errors=slots.filter(status=SlotStatus.ERROR).count(),
        waiting=QueueEntry.objects.filter(platform=platform).count(),
    )


def _runner(slot: Slot, measured: Measured, now: datetime) -> Runner:
    if slot.status == SlotStatus.STOPPING:
        age = (now - slot.status_since).total_seconds()
        left = max(measured.stop - age, 0.0)
    else:
        age = (now - (slot.last_assigned_at or slot.status_since)).total_seconds()
        left = time_left(measured, age=max(age, 0.0), share=LIKELY)
    return Runner(slot=slot, free_by=now + timedelta(seconds=left))
