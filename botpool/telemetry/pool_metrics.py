"""The current state of the pool: slots, bots, queue, deployments, findings, leases."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from bots.status import TERMINAL, BotStatus, Platform
from core.sql import fetch_all
from pool.capacity import paused_pools, pool_sizes
from slots.finding import FindingKind
from slots.status import SlotStatus


def pool_metrics(prefix: str) -> Iterator[Metric]:
    yield from _slots(prefix)
    yield from _sizes(prefix)
    yield from _bots(prefix)
    yield from _queue(prefix)
    yield from _deployments(prefix)
    yield from _findings(prefix)
    yield from _leases(prefix)


_SLOTS = """
SELECT platform, status, count(*), count(*) FILTER (WHERE cordoned),
    max(extract(epoch FROM clock_timestamp() - status_since))::float8
FROM slots_slot GROUP BY platform, status
"""


def _slots(prefix: str) -> Iterator[Metric]:
    labels = ["platform", "status"]
    count = GaugeMetricFamily(f"{prefix}slots", "Slots by status.", labels=labels)
    cordoned = GaugeMetricFamily(
        f"{prefix}slots_cordoned", "Cordoned slots, which take no more bots.", labels=labels
    )
    oldest = GaugeMetricFamily(
        f"{prefix}slot_oldest_seconds",
        "Time that the oldest slot in this status has spent in it.",
        labels=labels,
    )
    known = {(row[0], row[1]): row[2:] for row in fetch_all(_SLOTS, {})}
    for key in ((p, s) for p in Platform.values for s in SlotStatus.values):
        slots, held_back, age = known.get(key, (0, 0, 0.0))
        count.add_metric(key, slots)
        cordoned.add_metric(key, held_back)
        oldest.add_metric(key, age)
    return iter([count, cordoned, oldest])


def _sizes(prefix: str) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        f"{prefix}pool_max_size", "Maximum number of slots.", labels=["platform"]
    )
    paused = GaugeMetricFamily(
        f"{prefix}pool_paused", "1 while an operator has paused the pool.", labels=["platform"]
    )
    sizes = pool_sizes()
    paused_now = set(paused_pools().values_list("platform", flat=True))
    for platform in Platform.values:
        family.add_metric([platform], sizes[platform])
        paused.add_metric([platform], float(platform in paused_now))
    return iter([family, paused])


_BOTS = """
SELECT platform, status, count(*) FROM bots_bot
WHERE NOT status = ANY(ARRAY['DONE', 'FAILED', 'CANCELLED']) GROUP BY platform, status
"""


def _bots(prefix: str) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        f"{prefix}bots", "Bots that have not ended, by status.", labels=["platform", "status"]
    )
    known = {(platform, status): bots for platform, status, bots in fetch_all(_BOTS, {})}
    for platform in Platform.values:
        for status in BotStatus:
            if status not in TERMINAL:
                key = (platform, status.value)
                family.add_metric(key, known.get(key, 0))
    yield family


# The entry's time is its place in the queue; the bot's status_since is when its wait began.
_QUEUE = """
SELECT entry.platform, count(*),
    extract(epoch FROM clock_timestamp() - min(bot.status_since))::float8
FROM queues_queueentry AS entry JOIN bots_bot AS bot ON bot.id = entry.bot_id
GROUP BY entry.platform
"""


def _queue(prefix: str) -> Iterator[Metric]:
    length = GaugeMetricFamily(
        f"{prefix}queue_length", "Bots waiting for a slot.", labels=["platform"]
    )
    oldest = GaugeMetricFamily(
        f"{prefix}queue_oldest_seconds",
        "Longest time that a bot has been waiting.",
        labels=["platform"],
    )
    known = {row[0]: row[1:] for row in fetch_all(_QUEUE, {})}
    for platform in Platform.values:
        waiting, age = known.get(platform, (0, 0.0))
        length.add_metric([platform], waiting)
        oldest.add_metric([platform], age)
    return iter([length, oldest])


_DEPLOYMENTS = """
SELECT status, count(*), extract(epoch FROM clock_timestamp() - min(status_since))::float8
FROM slots_deployment
WHERE status = ANY(ARRAY['waiting_for_image', 'waiting_for_place', 'starting', 'in_progress'])
GROUP BY status
"""


def _deployments(prefix: str) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        f"{prefix}deployments_active", "Active deployments.", labels=["status"]
    )
    oldest = GaugeMetricFamily(
        f"{prefix}deployment_oldest_seconds",
        "Time that the oldest active deployment has spent in this status.",
        labels=["status"],
    )
    known = {row[0]: row[1:] for row in fetch_all(_DEPLOYMENTS, {})}
    for status in ("waiting_for_image", "waiting_for_place", "starting", "in_progress"):
        deployments, age = known.get(status, (0, 0.0))
        active.add_metric([status], deployments)
        oldest.add_metric([status], age)
    return iter([active, oldest])


_FINDINGS = "SELECT kind, count(*) FROM slots_finding WHERE ended_at IS NULL GROUP BY kind"


def _findings(prefix: str) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        f"{prefix}findings_open", "Open findings of the reconciler.", labels=["kind"]
    )
    known = dict(fetch_all(_FINDINGS, {}))
    for kind in FindingKind.values:
        family.add_metric([kind], known.get(kind, 0))
    yield family


# By kind, not by key: one series per slot would be too many.
_LEASES = """
SELECT split_part(key, ':', 1), sum(waits), sum(refusals), sum(takeovers),
    count(*) FILTER (WHERE holder <> '' AND expires_at > clock_timestamp()),
    coalesce(extract(epoch FROM max(longest_hold)), 0)::float8
FROM slots_lease GROUP BY 1
"""


def _leases(prefix: str) -> Iterator[Metric]:
    labels = ["kind"]
    counters: list[CounterMetricFamily | GaugeMetricFamily] = [
        CounterMetricFamily(
            f"{prefix}lease_waits", "Leases acquired after waiting.", labels=labels
        ),
        CounterMetricFamily(f"{prefix}lease_refusals", "Leases not acquired.", labels=labels),
        CounterMetricFamily(
            f"{prefix}lease_takeovers", "Leases taken over from a lost holder.", labels=labels
        ),
    ]
    held = GaugeMetricFamily(f"{prefix}leases_held", "Leases held now.", labels=labels)
    longest = GaugeMetricFamily(
        f"{prefix}lease_longest_hold_seconds", "Longest hold so far.", labels=labels
    )
    for kind, *values in fetch_all(_LEASES, {}):
        for family, value in zip([*counters, held, longest], values, strict=True):
            family.add_metric([kind], value)
    return iter([*counters, held, longest])
