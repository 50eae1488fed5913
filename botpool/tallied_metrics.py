"""The counters and histograms among the metrics: what the tallies hold (botpool.counting)."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from botpool.counting import BUCKETS
from botpool.models import Tally
from bots.status import Platform

Labels = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Counted:
    name: str
    help: str
    labels: Labels


COUNTERS = (
    Counted(name="bots_requested", help="Bots that were asked for.", labels=("platform",)),
    Counted(
        name="bots_ended",
        help="Bots that have ended, by status and, of those that failed, by kind of failure.",
        labels=("platform", "status", "failure"),
    ),
    Counted(
        name="slot_transitions",
        help="Moves of slots from one status to another.",
        labels=("from", "to"),
    ),
    Counted(
        name="deployments",
        help="Deployments that are over, by result and kind of reason.",
        labels=("platform", "result", "reason"),
    ),
    Counted(
        name="deployment_images",
        help="Finished deployments by image: warm, waited for another's pull (a pull saved) "
        "or pulled.",
        labels=("platform", "image"),
    ),
    Counted(
        name="findings",
        help="Findings of the reconciler that are over: repaired, or passed by themselves.",
        labels=("kind", "outcome"),
    ),
)
HISTOGRAMS = (
    Counted(
        name="bot_wait_seconds",
        help="From the request, or the failed placement before, to a slot.",
        labels=("platform",),
    ),
    Counted(
        name="bot_start_seconds",
        help="From the slot to a running bot.",
        labels=("platform",),
    ),
    Counted(
        name="deployment_seconds",
        help="From the slot to a running container, of finished deployments.",
        labels=("platform", "image"),
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
    for tally in tallies:
        family.add_metric(_values(counted, tally), tally.total)
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
    if counted.labels == ("platform",):
        own |= {(platform,): {} for platform in Platform.values}
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
