"""Counter and histogram metrics, read from the counters in the database."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from botpool.telemetry.counter import Tally
from botpool.telemetry.counters import BUCKETS
from bots.status import BotStatus, FailureCause, FailureKind, Platform
from slots.finding import FindingKind
from slots.status import MOVES, SlotStatus

Labels = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A counter metric. `known` lists all values that its labels can have.

    Each has a series from the beginning: Prometheus' rate() misses the first event of a new one.
    """

    name: str
    help: str
    labels: Labels
    known: tuple[Labels, ...] = ()


PLATFORMS = tuple((platform,) for platform in Platform.values)
IMAGES = ("warm", "waited", "pulled")
ENDS = (
    (BotStatus.DONE.value, ""),
    (BotStatus.CANCELLED.value, ""),
    *((BotStatus.FAILED.value, kind) for kind in FailureKind.values),
)
TRANSITIONS = (
    *(("", status.value) for status in (SlotStatus.IDLE, SlotStatus.DEPLOYING)),
    *((before.value, after.value) for before in MOVES for after in MOVES[before]),
)
# Results of deployments, and the causes of those that failed.
RESULTS = (
    ("finished", ""),
    ("cancelled", ""),
    ("timed_out", FailureCause.START_TIMED_OUT.value),
    *(
        ("failed", cause.value)
        for cause in (
            FailureCause.START_REFUSED,
            FailureCause.DEPLOYMENT_FAILED,
            FailureCause.CONTAINER_FAILED,
            FailureCause.APPLICATION_GONE,
            FailureCause.OPERATOR,
            FailureCause.INCONSISTENT,
        )
    ),
)


def _each_platform_with(values: Iterable[Labels]) -> tuple[Labels, ...]:
    return tuple((platform, *rest) for platform in Platform.values for rest in values)


COUNTERS = (
    Counted(
        name="bots_requested",
        help="Requested bots.",
        labels=("platform",),
        known=PLATFORMS,
    ),
    Counted(
        name="bots_ended",
        help="Ended bots, by status and, if they failed, kind of failure.",
        labels=("platform", "status", "failure"),
        known=_each_platform_with(ENDS),
    ),
    Counted(
        name="slot_transitions",
        help="Status changes of slots.",
        labels=("from", "to"),
        known=TRANSITIONS,
    ),
    Counted(
        name="deployments",
        help="Ended deployments, by result and, if they failed, cause.",
        labels=("platform", "result", "reason"),
        known=_each_platform_with(RESULTS),
    ),
    Counted(
        name="deployment_images",
        help="Finished deployments by image: warm, waited (for another deployment's pull) or "
        "pulled.",
        labels=("platform", "image"),
        known=_each_platform_with((image,) for image in IMAGES),
    ),
    Counted(
        name="findings",
        help="Ended findings of the reconciler: repaired, or passed by themselves.",
        labels=("kind", "outcome"),
        known=tuple(product(FindingKind.values, ("passed", "repaired"))),
    ),
    Counted(
        name="notifications",
        help="Messages to channels of notifications, by result.",
        labels=("result",),
        known=(("sent",), ("failed",)),
    ),
)
HISTOGRAMS = (
    Counted(
        name="bot_wait_seconds",
        help="Time from the request, or from the last failed placement, to a slot.",
        labels=("platform",),
        known=PLATFORMS,
    ),
    Counted(
        name="bot_start_seconds",
        help="Time from the slot to a running bot.",
        labels=("platform",),
        known=PLATFORMS,
    ),
    Counted(
        name="deployment_seconds",
        help="Time from the slot to a running container, for finished deployments.",
        labels=("platform", "image"),
        known=_each_platform_with((image,) for image in IMAGES),
    ),
)


def counter_metrics(prefix: str) -> Iterator[Metric]:
    """Read all counters in one query."""
    counters = defaultdict(list)
    for counter in Tally.objects.all():
        counters[counter.name].append(counter)
    for counted in COUNTERS:
        yield _counter(counted, counters[counted.name], prefix=prefix)
    yield _pulls_saved(counters["deployment_images"], prefix=prefix)
    for counted in HISTOGRAMS:
        sums = counters[f"{counted.name}_sum"]
        yield _histogram(counted, counters[counted.name], sums=sums, prefix=prefix)


def _counter(counted: Counted, counters: list[Tally], *, prefix: str) -> Metric:
    family = CounterMetricFamily(prefix + counted.name, counted.help, labels=counted.labels)
    totals = dict.fromkeys(counted.known, 0.0)
    totals |= {_values(counted, counter): counter.total for counter in counters}
    for values, total in totals.items():
        family.add_metric(values, total)
    return family


def _pulls_saved(counters: list[Tally], *, prefix: str) -> Metric:
    saved = dict.fromkeys(Platform.values, 0.0)
    for counter in counters:
        if counter.labels["image"] == "waited":
            saved[counter.labels["platform"]] = counter.total
    family = CounterMetricFamily(
        f"{prefix}pulls_saved",
        "Pulls saved by waiting for another deployment's pull.",
        labels=["platform"],
    )
    for platform, total in saved.items():
        family.add_metric([platform], total)
    return family


def _histogram(
    counted: Counted, counters: list[Tally], *, sums: list[Tally], prefix: str
) -> Metric:
    family = HistogramMetricFamily(prefix + counted.name, counted.help, labels=counted.labels)
    own: dict[Labels, dict[float, float]] = defaultdict(dict)
    own |= {values: {} for values in counted.known}
    for counter in counters:
        bound = counter.labels["le"]
        own[_values(counted, counter)][math.inf if bound is None else bound] = counter.total
    total = {_values(counted, counter): counter.total for counter in sums}
    for values, buckets in own.items():
        family.add_metric(values, _cumulated(buckets), sum_value=total.get(values, 0.0))
    return family


def _cumulated(buckets: dict[float, float]) -> list[tuple[str, float]]:
    """Prometheus' buckets are cumulative; ours are not."""
    so_far, result = 0.0, []
    for bound in [*BUCKETS, math.inf]:
        so_far += buckets.get(bound, 0.0)
        result.append(("+Inf" if bound == math.inf else str(float(bound)), so_far))
    return result


def _values(counted: Counted, counter: Tally) -> Labels:
    return tuple(counter.labels.get(label, "") for label in counted.labels)
