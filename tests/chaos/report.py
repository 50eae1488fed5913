"""The figures of a run."""

import itertools
from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any

from tests.chaos.evidence import Evidence


def figures(
    evidence: Evidence, *, settled_after: float, restarts: int, calls: int
) -> dict[str, Any]:
    clients, havoc = evidence.clients, evidence.havoc
    return {
        "bots": len(evidence.bots),
        "ended as": dict(Counter(bot.status for bot in evidence.bots.values())),
        "failures": dict(_failures(evidence).most_common()),
        "cancelled by clients": len(clients.cancelled),
        "released by the operator": len(clients.released),
        "mass repairs allowed by the operator": clients.operator_allowed_many,
        "client calls retried": clients.calls_that_failed,
        "blows": dict(sorted(havoc.done.items())),
        "processes restarted": restarts,
        "Coolify calls": calls,
        "containers": len(evidence.containers),
        "cold pulls": sum(pull["cold"] for pull in evidence.pulls),
        "repairs by the reconciler": sum(t.actor == "reconciler" for t in evidence.transitions),
        "bots queued": len(_waited(evidence)),
        "wait in the queue, s": _spread(_waited(evidence)),
        "start, s": _spread(_lasting(evidence, "DEPLOYING")),
        "longest time in a slot status, s": _longest_in_slots(evidence),
        "webhooks about ends, delivered": sum(
            each.delivered_at is not None for each in evidence.deliveries
        ),
        "longest wrong description, s": round(
            max((until - since for since, until in evidence.mirror.values()), default=0.0), 1
        ),
        "writes under the witnesses' lease": len(evidence.fences),
        "witnesses' attempts on outdated data": dict(Counter(evidence.late)),
        "settled after, s": round(settled_after, 1),
    }


def as_text(found: dict[str, Any]) -> str:
    lines = []
    for name, value in found.items():
        if isinstance(value, dict):
            lines.append(f"{name}:")
            lines += [f"    {key}: {number}" for key, number in value.items()]
        else:
            lines.append(f"{name}: {value}")
    return "\n".join(lines)


def _failures(evidence: Evidence) -> Counter[str]:
    """Count failures by the start of the reason, without digits."""
    reasons = (bot.failure_reason for bot in evidence.bots.values() if bot.failure_reason)
    return Counter("".join(c for c in reason if not c.isdigit())[:60] for reason in reasons)


def _waited(evidence: Evidence) -> list[float]:
    return _lasting(evidence, "QUEUED")


def _lasting(evidence: Evidence, status: str) -> list[float]:
    return [
        after.at - before.at
        for events in evidence.events_of.values()
        for before, after in itertools.pairwise(events)
        if before.to_status == status
    ]


def _longest_in_slots(evidence: Evidence) -> dict[str, float]:
    longest: dict[str, float] = {}
    since: dict[int, tuple[str, float]] = {}
    for each in evidence.transitions:
        status, begin = since.get(each.slot_id, ("", each.at))
        if each.to_status != status:
            longest[status] = max(longest.get(status, 0.0), round(each.at - begin, 1))
            since[each.slot_id] = (each.to_status, each.at)
    return {name: longest[name] for name in ("deploying", "stopping", "error") if name in longest}


def _spread(values: Iterable[float]) -> str:
    found = sorted(values)
    if not found:
        return "none"
    p95 = found[int(0.95 * (len(found) - 1))]
    return f"median {median(found):.1f}, p95 {p95:.1f}, longest {found[-1]:.1f}"
