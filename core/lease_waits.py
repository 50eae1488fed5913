"""How long leases were waited for: a histogram for each kind of lease."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import models
from django.db.models import F

# Seconds. A wait ends after LOCK_RETRY_COUNT tries: by default, after about two seconds.
BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)
ENDLESS = float("inf")


class LeaseWait(models.Model):
    """Waits of one kind that took at most `bound` seconds, and longer than the bound before it.

    A wait counts whether the lease was acquired in the end or not. One row per kind and bound.
    """

    kind = models.CharField(max_length=150)
    bound = models.FloatField()
    total = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0)

    class Meta:
        app_label = "slots"  # beside the leases
        constraints = [
            models.UniqueConstraint(name="one_row_per_kind_and_bound", fields=["kind", "bound"])
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.total} waits of at most {self.bound:g} s"


@dataclass(frozen=True)
class Waits:
    total: int
    p50: float | None
    p95: float | None


def kind_of(key: str) -> str:
    """`slot` for `slot:7`: one series per slot would be too many."""
    return key.partition(":")[0]


def count_wait(key: str, seconds: float) -> None:
    bound = next((bound for bound in BOUNDS if seconds <= bound), ENDLESS)
    row, _ = LeaseWait.objects.get_or_create(kind=kind_of(key), bound=bound)
    same = LeaseWait.objects.filter(pk=row.pk)
    same.update(total=F("total") + 1, seconds=F("seconds") + seconds)


def waits() -> Waits:
    """Of all kinds together."""
    rows = list(LeaseWait.objects.order_by("bound"))
    return Waits(sum(row.total for row in rows), _quantile(rows, 0.5), _quantile(rows, 0.95))


def _quantile(rows: Iterable[LeaseWait], share: float) -> float | None:
    """The bound below which so large a share of the waits ended; None if there were none."""
    rows = list(rows)
    needed, counted = share * sum(row.total for row in rows), 0
    for row in rows:
        counted += row.total
        if row.total and counted >= needed:
            return row.bound if row.bound != ENDLESS else BOUNDS[-1]
    return None
