"""The whole pool at a glance: slots, queue, deployments, leases and open findings."""

from typing import Any

from django.db.models import Count, Max, Min, Sum
from django.db.models.functions import Coalesce

from bots.status import Platform
from core.jobs.ticker import LEASE as TICKER
from core.lease_waits import waits
from core.leases import IS_HELD, Lease
from pool.capacity import paused_pools, pool_size
from queues.models import QueueEntry
from slots.deployment import ACTIVE, Deployment, Watch
from slots.models import Finding, Pool, Slot
from slots.status import SlotStatus


def pool_status() -> dict[str, Any]:
    return {
        "slots": _slots(),
        "pools": _pools(),
        "queue": _queue(),
        "deployments": _deployments(),
        "leases": _leases(),
        "contention": _contention(),
        "findings": _findings(),
        "coolify": _coolify(),
    }


def _slots() -> dict[str, dict[str, int]]:
    counts = {p: dict.fromkeys(SlotStatus.values, 0) for p in Platform.values}
    for row in Slot.objects.values("platform", "status").annotate(n=Count("id")).order_by():
        counts[row["platform"]][row["status"]] = row["n"]
    return counts


def _pools() -> dict[str, dict[str, Any]]:
    """What operators have set, and what keeps idle slots from waiters."""
    own = {pool.platform: pool for pool in Pool.objects.all()}
    paused = {pool.platform: pool for pool in paused_pools()}
    cordoned = Slot.objects.filter(cordoned=True).values("platform").order_by()
    counts = {row["platform"]: row["n"] for row in cordoned.annotate(n=Count("id"))}
    return {
        platform: {
            "maximum": pool_size(platform, own.get(platform)),
            "cordoned": counts.get(platform, 0),
            "paused": platform in paused,
            "pauseReason": paused[platform].pause_reason if platform in paused else "",
        }
        for platform in Platform.values
    }


def _queue() -> dict[str, dict[str, Any]]:
    rows = QueueEntry.objects.values("platform").order_by()
    counts = rows.annotate(n=Count("id"), first=Min("bot__status_since"))
    counted = {row["platform"]: row for row in counts}
    return {
        platform: {
            "waiting": counted[platform]["n"] if platform in counted else 0,
            "oldestSince": counted[platform]["first"] if platform in counted else None,
        }
        for platform in Platform.values
    }


def _deployments() -> list[dict[str, Any]]:
    active = Deployment.objects.filter(status__in=ACTIVE).order_by("id")
    return [
        {
            "slot": each.slot_name,
            "bot": each.bot_id,
            "status": each.status,
            "since": each.status_since,
            "attempt": each.attempt,
            "leader": each.leader,
            "reason": each.reason,
        }
        for each in active
    ]


def _leases() -> list[dict[str, Any]]:
    held = Lease.objects.filter(IS_HELD).exclude(key=TICKER).order_by("key")
    return [
        {
            "key": each.key,
            "holder": each.holder,
            "since": each.acquired_at,
            "expiresAt": each.expires_at,
        }
        for each in held
    ]


def _contention() -> dict[str, Any]:
    """In total, without the ticker, which holds its lease for as long as it runs."""
    waited = waits()
    counts = Lease.objects.exclude(key=TICKER).aggregate(
        waits=Coalesce(Sum("waits"), 0),
        refusals=Coalesce(Sum("refusals"), 0),
        takeovers=Coalesce(Sum("takeovers"), 0),
        longestHold=Max("longest_hold"),
    )
    return {**counts, "waitP50Seconds": waited.p50, "waitP95Seconds": waited.p95}


def _findings() -> list[dict[str, Any]]:
    return [
        {
            "kind": each.kind,
            "subject": each.name or each.subject,
            "since": each.first_seen_at,
            "reason": each.reason,
            "decision": each.decision,
            "outcome": each.outcome,
        }
        for each in Finding.objects.filter(ended_at=None).order_by("first_seen_at")
    ]


def _coolify() -> dict[str, Any]:
    watch = Watch.objects.first()
    return {
        "lookedAt": watch.looked_at if watch else None,
        "failingSince": watch.failing_since if watch else None,
        "error": watch.error if watch else "",
    }
