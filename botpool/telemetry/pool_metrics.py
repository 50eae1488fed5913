"""The current state of the pool: slots, bots, queue, deployments, findings, leases."""

import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import product

from django.db.models import Count, Max, Min, Q, Sum, Value
from django.db.models.functions import Concat, StrIndex, Substr
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from bots.models import Bot
from bots.status import TERMINAL, BotStatus, Platform
from core.clock import database_now
from core.lease_waits import BOUNDS, LeaseWait
from core.leases import IS_HELD, Lease
from pool.capacity import paused_pools, pool_sizes
from pool.reconciler.approvals import held_back_repairs
from queues.models import QueueEntry
from slots.deployment import ACTIVE, Deployment
from slots.finding import Finding, FindingKind
from slots.models import Slot
from slots.status import SlotStatus


def pool_metrics(prefix: str) -> Iterator[Metric]:
    yield from _slots(prefix)
    yield from _sizes(prefix)
    yield from _bots(prefix)
    yield from _queue(prefix)
    yield from _deployments(prefix)
    yield from _findings(prefix)
    yield from _leases(prefix)


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
    rows = Slot.objects.values_list("platform", "status").order_by()
    cordons = Count("pk", filter=Q(cordoned=True))
    counted = rows.annotate(n=Count("pk"), cordons=cordons, since=Min("status_since"))
    now = database_now()
    known = {(p, s): (n, held, _age(since, now)) for p, s, n, held, since in counted}
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


def _bots(prefix: str) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        f"{prefix}bots", "Bots that have not ended, by status.", labels=["platform", "status"]
    )
    living = Bot.objects.exclude(status__in=TERMINAL).values_list("platform", "status").order_by()
    known = {(platform, status): n for platform, status, n in living.annotate(n=Count("pk"))}
    for platform in Platform.values:
        for status in BotStatus:
            if status not in TERMINAL:
                key = (platform, status.value)
                family.add_metric(key, known.get(key, 0))
    yield family


def _queue(prefix: str) -> Iterator[Metric]:
    length = GaugeMetricFamily(
        f"{prefix}queue_length", "Bots waiting for a slot.", labels=["platform"]
    )
    oldest = GaugeMetricFamily(
        f"{prefix}queue_oldest_seconds",
        "Longest time that a bot has been waiting.",
        labels=["platform"],
    )
    # The entry's time is its place in the queue; the bot's status_since is when its wait began.
    rows = QueueEntry.objects.values_list("platform").order_by()
    counted = rows.annotate(n=Count("pk"), since=Min("bot__status_since"))
    now = database_now()
    known = {platform: (n, _age(since, now)) for platform, n, since in counted}
    for platform in Platform.values:
        waiting, age = known.get(platform, (0, 0.0))
        length.add_metric([platform], waiting)
        oldest.add_metric([platform], age)
    return iter([length, oldest])


def _deployments(prefix: str) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        f"{prefix}deployments_active", "Active deployments.", labels=["status"]
    )
    oldest = GaugeMetricFamily(
        f"{prefix}deployment_oldest_seconds",
        "Time that the oldest active deployment has spent in this status.",
        labels=["status"],
    )
    rows = Deployment.objects.filter(status__in=ACTIVE).values_list("status").order_by()
    now = database_now()
    counted = rows.annotate(n=Count("pk"), since=Min("status_since"))
    known = {status: (n, _age(since, now)) for status, n, since in counted}
    for status in (each.value for each in ACTIVE):
        deployments, age = known.get(status, (0, 0.0))
        active.add_metric([status], deployments)
        oldest.add_metric([status], age)
    return iter([active, oldest])


def _findings(prefix: str) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        f"{prefix}findings_open", "Open findings of the reconciler.", labels=["kind"]
    )
    rows = Finding.objects.filter(ended_at=None).values_list("kind").order_by()
    known = dict(rows.annotate(n=Count("pk")))
    for kind in FindingKind.values:
        family.add_metric([kind], known.get(kind, 0))
    yield family
    yield _held_back(prefix)


def _held_back(prefix: str) -> Metric:
    family = GaugeMetricFamily(
        f"{prefix}findings_held_back",
        "Findings whose repair waits for an operator.",
        labels=["kind", "platform"],
    )
    rows = held_back_repairs().order_by().values_list("kind", "platform").annotate(n=Count("pk"))
    known = {(kind, platform): n for kind, platform, n in rows}
    held = (FindingKind.HEARTBEAT_LOST, FindingKind.CONTAINER_GONE, FindingKind.APPLICATION_GONE)
    for kind, platform in sorted({*product(held, Platform.values), *known}):
        family.add_metric([kind, platform], known.get((kind, platform), 0))
    return family


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
    # By kind, not by key: one series per slot would be too many.
    kind = Substr("key", 1, StrIndex(Concat("key", Value(":")), Value(":")) - 1)
    rows = Lease.objects.annotate(kind=kind).values_list("kind").order_by()
    counted = rows.annotate(
        Sum("waits"), Sum("refusals"), Sum("takeovers"), n=Count("pk", filter=IS_HELD),
        hold=Max("longest_hold"), refused=Min("refused_since", filter=IS_HELD),
    )  # fmt: skip
    refused = GaugeMetricFamily(
        f"{prefix}lease_refused_seconds",
        "Longest time that other processes have tried to acquire a lease without success.",
        labels=labels,
    )
    now = database_now()
    for name, *totals, hold, since in counted:
        refused.add_metric([name], _age(since, now) if since else 0.0)
        seconds = hold.total_seconds() if hold else 0.0
        for family, value in zip([*counters, held, longest], [*totals, seconds], strict=True):
            family.add_metric([name], value)
    return iter([*counters, held, longest, refused, _lease_waits(prefix)])


def _lease_waits(prefix: str) -> Metric:
    family = HistogramMetricFamily(
        f"{prefix}lease_wait_seconds",
        "Waits for leases, whether they were acquired in the end or not.",
        labels=["kind"],
    )
    rows: dict[str, dict[float, LeaseWait]] = defaultdict(dict, slot={})
    for row in LeaseWait.objects.all():
        rows[row.kind][row.bound] = row
    for kind, by_bound in sorted(rows.items()):
        counted, buckets = 0, []
        for bound in (*BOUNDS, math.inf):
            counted += by_bound[bound].total if bound in by_bound else 0
            buckets.append(("+Inf" if bound == math.inf else str(bound), float(counted)))
        family.add_metric([kind], buckets, sum(row.seconds for row in by_bound.values()))
    return family


def _age(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds()
