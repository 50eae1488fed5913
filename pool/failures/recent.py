"""How the recent starts of slots ended."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Max, QuerySet
from django.db.models.functions import Now

from bots.status import FailureCause
from slots.deployment import Deployment, DeploymentStatus

FAILED = (DeploymentStatus.FAILED, DeploymentStatus.TIMED_OUT)
ENDED = (DeploymentStatus.FINISHED, *FAILED)
PERIOD = timedelta(hours=24)
# The newest starts, however many there are.
LOOKED_AT = 5_000
LAST_STARTS = 5
FAILS_OFTEN = 3


@dataclass(frozen=True, kw_only=True)
class FailingSlot:
    """A slot that failed `failed` of its last `starts` starts, mostly for `cause`."""

    slot_id: int
    name: str
    failed: int
    starts: int
    cause: str

    @property
    def words(self) -> str:
        return f"{self.name} failed {self.failed} of its last {self.starts} starts: {self.cause}"


def failed_starts(deployments: QuerySet[Deployment]) -> QuerySet[Deployment]:
    """Those that failed in the last 24 hours, not by an operator's hand or a lost server."""
    recent = deployments.filter(status__in=FAILED, ended_at__gt=Now() - PERIOD)
    return recent.exclude(failure_cause__in=[FailureCause.OPERATOR, FailureCause.SERVER_LOST])


def failures_of(slot_ids: Iterable[int]) -> dict[int, int]:
    """How many starts failed in the last 24 hours, by the slots' ids."""
    failed = failed_starts(Deployment.objects.filter(slot_id__in=list(slot_ids)))
    return dict(failed.values_list("slot_id").order_by().annotate(Count("pk")))


def failing_slots() -> list[FailingSlot]:
    """Those that failed most of their last starts, worst first."""
    newest = Deployment.objects.aggregate(newest=Max("pk"))["newest"] or 0
    recent = Deployment.objects.filter(
        pk__gt=newest - LOOKED_AT, status__in=ENDED, ended_at__gt=Now() - PERIOD
    ).exclude(failure_cause=FailureCause.OPERATOR)
    if not failed_starts(recent).exists():
        return []
    starts: dict[tuple[int, str], list[tuple[str, str]]] = defaultdict(list)
    rows = recent.order_by("-pk").values_list("slot_id", "slot_name", "status", "failure_cause")
    for slot_id, name, status, cause in rows:
        starts[slot_id, name].append((status, cause))
    found = [_failing(slot, ends[:LAST_STARTS]) for slot, ends in starts.items()]
    worst = [slot for slot in found if slot.failed >= FAILS_OFTEN]
    return sorted(worst, key=lambda slot: (-slot.failed, slot.name))


def _failing(slot: tuple[int, str], ends: list[tuple[str, str]]) -> FailingSlot:
    causes = Counter(
        cause or FailureCause.UNKNOWN.value for status, cause in ends if status in FAILED
    )
    [(cause, _)] = causes.most_common(1) or [("", 0)]
    names = dict(FailureCause.choices)
    return FailingSlot(
        slot_id=slot[0],
        name=slot[1],
        failed=sum(causes.values()),
        starts=len(ends),
        cause=str(names.get(cause, cause)).lower(),
    )
