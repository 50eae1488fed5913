"""The state of ticker, workers, periodic work, tasks, Coolify's budget and PostgreSQL."""

import logging
from collections.abc import Iterator

from django.conf import settings
from django_q.brokers import get_broker
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from botpool.schedule import WORKS
from botpool.telemetry import queries
from coolify.budget.report import GRANTED, REFUSALS, REFUSED, BudgetReport, budget_report
from coolify.client.calls import CALLS
from core.jobs.ticker import LEASE_TTL
from core.sql import fetch_all, fetch_one

logger = logging.getLogger(__name__)


def machinery_metrics(prefix: str) -> Iterator[Metric]:
    yield from _periodic(prefix)
    yield from _tasks(prefix)
    yield from _liveness(prefix)
    yield from _budget(prefix, budget_report())


def _periodic(prefix: str) -> Iterator[Metric]:
    families = [
        GaugeMetricFamily(f"{prefix}periodic_{name}", text, labels=["work"])
        for name, text in (
            (
                "age_seconds",
                "Time since the last successful run, or since the database was set up.",
            ),
            ("asked_seconds", "Time that a requested run has not started."),
            ("duration_seconds", "Duration of the last run."),
            ("failing", "1 if the last run failed."),
        )
    ]
    for work, *values in fetch_all(queries.PERIODIC, {"works": [work.name for work in WORKS]}):
        for family, value in zip(families, values, strict=True):
            family.add_metric([work], value)
    return iter(families)


def _tasks(prefix: str) -> Iterator[Metric]:
    length, age = _waiting_in_redis() if settings.REDIS_URL else _waiting_in_postgres()
    if length is not None:
        yield GaugeMetricFamily(
            f"{prefix}tasks_waiting", "Tasks that no worker has taken yet.", length
        )
    yield GaugeMetricFamily(
        f"{prefix}task_oldest_seconds", "Age of the oldest of these tasks.", age
    )


def _waiting_in_postgres() -> tuple[float, float]:
    row = fetch_one(queries.WAITING_TASKS, {})
    assert row is not None
    return row[0], row[1]


def _waiting_in_redis() -> tuple[float | None, float]:
    """Redis stores no times, so the age is that of the oldest requested run.

    The number is None while Redis is away; the other metrics are served all the same.
    """
    from redis import RedisError  # installed only where Redis is the broker

    row = fetch_one(queries.OLDEST_ASKED, {})
    try:
        length: float | None = float(get_broker().queue_size())
    except RedisError as error:
        logger.warning("Metrics omit the number of waiting tasks: %s", error)
        length = None
    return length, row[0] if row else 0.0


def _liveness(prefix: str) -> Iterator[Metric]:
    row = fetch_one(queries.LIVENESS, {"ttl": LEASE_TTL})
    assert row is not None
    seen, host, looked, failing, due, disabled, uncounted, connections, most, size = row
    leads = seen is not None and seen <= LEASE_TTL.total_seconds()
    ticker = GaugeMetricFamily(
        f"{prefix}ticker_leader", "1 for the host with the leading ticker.", labels=["host"]
    )
    ticker.add_metric([host if leads and host else "none"], float(leads))
    yield ticker
    for name, text, value in (
        (
            "watch_age_seconds",
            "Time since the last successful observation of Coolify, or since the first slot was "
            "created.",
            looked,
        ),
        ("watch_failing_seconds", "Time that observing Coolify has failed.", failing),
        ("webhooks_due", "Unfinished webhook deliveries.", due),
        ("webhook_endpoints_disabled", "Webhook endpoints that get no events.", disabled),
        ("counters_age_seconds", "How far the counters are behind.", uncounted),
        (
            "database_connections",
            "Connections to this database, including PgBouncer's.",
            connections,
        ),
        ("database_max_connections", "Connections that PostgreSQL allows.", most),
        ("database_bytes", "Size of the database.", size),
    ):
        yield GaugeMetricFamily(f"{prefix}{name}", text, value or 0)


def _budget(prefix: str, report: BudgetReport) -> Iterator[Metric]:
    yield _calls(prefix, report)
    left = GaugeMetricFamily(
        f"{prefix}coolify_budget_left", "Calls that can be made right now.", labels=["class"]
    )
    for call_class, each in report.classes.items():
        left.add_metric([call_class], each.left)
    yield left
    for name, text, value in (
        ("limit", "Calls per minute that Botpool allows itself.", report.limit),
        ("spent", "Calls made in the last minute.", report.spent),
    ):
        yield GaugeMetricFamily(f"{prefix}coolify_budget_{name}", text, value)
    yield GaugeMetricFamily(
        f"{prefix}coolify_circuit_open",
        "1 while Botpool does not call Coolify because it failed too often.",
        float(report.circuit != "closed"),
    )
    for name, text, total in (
        ("pauses", "Pauses requested by Coolify (429).", report.times_paused),
        (
            "circuit_openings",
            "How often the circuit opened because Coolify failed too often.",
            report.times_opened,
        ),
        ("spent_by_others", "Calls that others made on our account.", report.spent_by_others),
        (
            "time_held_back_seconds",
            "Time without calls because of pauses or an open circuit, counted when they begin.",
            report.seconds_held_back,
        ),
    ):
        yield CounterMetricFamily(f"{prefix}coolify_{name}", text, value=total)
    yield _held_back(prefix)


def _calls(prefix: str, report: BudgetReport) -> Metric:
    family = CounterMetricFamily(
        f"{prefix}coolify_calls",
        "Calls to Coolify: granted, refused by the budget or failed, with the reason.",
        labels=["class", "call", "outcome", "reason"],
    )
    totals = {(call.call_class, call.name, call.outcome): call.total for call in report.calls}
    for (call_class, name, outcome), total in (_NO_CALLS | totals).items():
        family.add_metric([call_class, name, *_outcome_and_reason(outcome)], total)
    return family


# rate() misses the first event of a new series, so every call has its series from the start.
# Failures appear once they happen: a series for each call and kind of error would be too many.
_NO_CALLS = {
    (call_class.value, name, outcome): 0
    for call_class, names in CALLS.items()
    for name in names
    for outcome in (GRANTED, *(REFUSED + reason for reason in REFUSALS))
}


def _outcome_and_reason(outcome: str) -> tuple[str, str]:
    if outcome == GRANTED:
        return "granted", ""
    if outcome.startswith(REFUSED):
        return "refused", outcome.removeprefix(REFUSED)
    return "failed", outcome


def _held_back(prefix: str) -> Metric:
    row = fetch_one(queries.HELD_BACK, {})
    return GaugeMetricFamily(
        f"{prefix}coolify_held_back_seconds",
        "Time until calls resume after a pause or an open circuit.",
        row[0] if row else 0.0,
    )
