"""The counters and histograms among the metrics, from the counters in the database."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from botpool.telemetry.counter import Tally
from botpool.telemetry.counters import BUCKETS
from bots.status import BotStatus, FailureKind, Platform
from slots.finding import FindingKind
from slots.status import MOVES, SlotStatus

Labels = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """`known` are the values that its labels can have. Each has a series from the beginning: a
    rate misses the first of a series that begins with it, and an alert with it."""

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
# Results and kinds of reason, as botpool.telemetry.counters tells them apart.
RESULTS = (
    ("finished", ""),
    ("cancelled", ""),
    ("timed_out", "timeout"),
    ("failed", "refused"),
    ("failed", "deployment"),
    ("failed", "container"),
    ("failed", "application_gone"),
    ("failed", "other"),
)


def _each_platform_with(values: Iterable[Labels]) -> tuple[Labels, ...]:
    return tuple((platform, *rest) for platform in Platform.values for rest in values)


COUNTERS = (
    Counted(
        name="bots_requested",
        help="Bots that were asked for.",
        labels=("platform",),
        known=PLATFORMS,
    ),
    Counted(
        name="bots_ended",
        help="Bots that have ended, by status and, of those that failed, by kind of failure.",
        labels=("platform", "status", "failure"),
        known=_each_platform_with(ENDS),
    ),
    Counted(
        name="slot_transitions",
        help="Moves of slots from one status to another.",
        labels=("from", "to"),
        known=TRANSITIONS,
    ),
    Counted(
        name="deployments",
        help="Deployments that are over, by result and kind of reason.",
        labels=("platform", "result", "reason"),
        known=_each_platform_with(RESULTS),
    ),
    Counted(
        name="deployment_images",
        help="Finished deployments by image: warm, waited for another's pull (a pull saved) "
        "or pulled.",
        labels=("platform", "image"),
        known=_each_platform_with((image,) for image in IMAGES),
    ),
    Counted(
        name="findings",
        help="Findings of the reconciler that are over: repaired, or passed by themselves.",
        labels=("kind", "outcome"),
        known=tuple(product(FindingKind.values, ("passed", "repaired"))),
    ),
)
HISTOGRAMS = (
    Counted(
        name="bot_wait_seconds",
        help="From the request, or the failed placement before, to a slot.",
        labels=("platform",),
        known=PLATFORMS,
    ),
    Counted(
        name="bot_start_seconds",
        help="From the slot to a running bot.",
        labels=("platform",),
        known=PLATFORMS,
    ),
    Counted(
        name="deployment_seconds",
        help="From the slot to a running container, of finished deployments.",
        labels=("platform", "image"),
        known=_each_platform_with((image,) for image in IMAGES),
    ),
)


def tallied_metrics(prefix: str) -> Iterator[Metric]:
    """All of them, in one query."""
    tallies = defaultdict(list)
    for tally in Tally.objects.all():
        tallies[tally.name].append(tally)
    for counted in COUNTERS:
        yield _counter(counted, tallies[counted.name], prefix=prefix)
    yield _pulls_saved(tallies["deployment_images"], prefix=prefix)
    for counted in HISTOGRAMS:
        sums = tallies[f"{counted.name}_sum"]
        yield _histogram(counted, tallies[counted.name], sums=sums, prefix=prefix)


def _counter(counted: Counted, tallies: list[Tally], *, prefix: str) -> Metric:
    family = CounterMetricFamily(prefix + counted.name, counted.help, labels=counted.labels)
    totals = dict.fromkeys(counted.known, 0.0)
    totals |= {_values(counted, tally): tally.total for tally in tallies}
    for values, total in totals.items():
        family.add_metric(values, total)
    return family


def _pulls_saved(tallies: list[Tally], *, prefix: str) -> Metric:
    """The share of all that did not have to pull is the warm-hit share."""
    saved = dict.fromkeys(Platform.values, 0.0)
    for tally in tallies:
        if tally.labels["image"] == "waited":
            saved[tally.labels["platform"]] = tally.total
    family = CounterMetricFamily(
        f"{prefix}pulls_saved", "Pulls saved by waiting for another's.", labels=["platform"]
    )
    for platform, total in saved.items():
        family.add_metric([platform], total)
    return family


def _histogram(counted: Counted, tallies: list[Tally], *, sums: list[Tally], prefix: str) -> Metric:
    family = HistogramMetricFamily(prefix + counted.name, counted.help, labels=counted.labels)
    own: dict[Labels, dict[float, float]] = defaultdict(dict)
    own |= {values: {} for values in counted.known}
    for tally in tallies:
        bound = tally.labels["le"]
        own[_values(counted, tally)][math.inf if bound is None else bound] = tally.total
    total = {_values(counted, tally): tally.total for tally in sums}
    for values, buckets in own.items():
        family.add_metric(values, _cumulated(buckets), sum_value=total.get(values, 0.0))
    return family


def _cumulated(buckets: dict[float, float]) -> list[tuple[str, float]]:
    """Prometheus' buckets hold all that is below their bound, too."""
    so_far, result = 0.0, []
    for bound in [*BUCKETS, math.inf]:
        so_far += buckets.get(bound, 0.0)
        result.append(("+Inf" if bound == math.inf else str(float(bound)), so_far))
    return result


def _values(counted: Counted, tally: Tally) -> Labels:
    return tuple(tally.labels.get(label, "") for label in counted.labels)
