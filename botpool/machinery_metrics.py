"""How the machinery does: ticker, workers, periodic work, tasks, Coolify's budget, PostgreSQL."""

import logging
from collections.abc import Iterator

from django.conf import settings
from django_q.brokers import get_broker
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from botpool.periodic import WORKS
from botpool.sql import fetch_all, fetch_one
from botpool.ticker import LEASE_TTL
from coolify.budget_report import GRANTED, REFUSED, BudgetReport, budget_report

logger = logging.getLogger(__name__)


def machinery_metrics(prefix: str) -> Iterator[Metric]:
    yield from _periodic(prefix)
    yield from _tasks(prefix)
    yield from _signs_of_life(prefix)
    yield from _budget(prefix, budget_report())


_PERIODIC = """
SELECT name,
    extract(epoch FROM clock_timestamp() - finished_at)::float8,
    coalesce(extract(epoch FROM clock_timestamp() - asked_at), 0)::float8,
    coalesce(extract(epoch FROM duration), 0)::float8,
    (error <> '')::int
FROM botpool_periodicwork WHERE name = ANY(%(works)s) ORDER BY name
"""


def _periodic(prefix: str) -> Iterator[Metric]:
    """The lag of the reconciler and of every other periodic work."""
    families = [
        GaugeMetricFamily(f"{prefix}periodic_{name}", text, labels=["work"])
        for name, text in (
            ("age_seconds", "Since its last run that succeeded."),
            ("asked_seconds", "For how long a run has been asked for and not begun."),
            ("duration_seconds", "How long the last run took."),
            ("failing", "1 if the last run failed."),
        )
    ]
    for work, *values in fetch_all(_PERIODIC, {"works": [work.name for work in WORKS]}):
        for family, value in zip(families, values, strict=True):
            if value is not None:
                family.add_metric([work], value)
    return iter(families)


_WAITING_TASKS = """
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(lock)), 0)::float8
FROM django_q_ormq WHERE lock <= clock_timestamp()
"""
_OLDEST_ASKED = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(asked_at)), 0)::float8
FROM botpool_periodicwork
"""


def _tasks(prefix: str) -> Iterator[Metric]:
    length, age = _waiting_in_redis() if settings.REDIS_URL else _waiting_in_postgres()
    if length is not None:
        yield GaugeMetricFamily(f"{prefix}tasks_waiting", "Tasks that no worker has taken.", length)
    yield GaugeMetricFamily(f"{prefix}task_oldest_seconds", "The age of the oldest of them.", age)


def _waiting_in_postgres() -> tuple[float, float]:
    row = fetch_one(_WAITING_TASKS, {})
    assert row is not None
    return row[0], row[1]


def _waiting_in_redis() -> tuple[float | None, float]:
    """Redis keeps no times: the age is that of the oldest run that was asked for. And with Redis
    away nobody knows how many wait, which is no reason to tell nothing else."""
    from redis import RedisError  # installed only where Redis is the broker

    row = fetch_one(_OLDEST_ASKED, {})
    try:
        length: float | None = float(get_broker().queue_size())
    except RedisError as error:
        logger.warning("The metrics go without the number of waiting tasks: %s", error)
        length = None
    return length, row[0] if row else 0.0


_SIGNS_OF_LIFE = """
SELECT
    (SELECT coalesce(extract(epoch FROM clock_timestamp() - seen_at), 'Infinity')::float8
        FROM botpool_tickerlease),
    (SELECT split_part(holder, ':', 1) FROM botpool_tickerlease),
    (SELECT extract(epoch FROM clock_timestamp() - looked_at)::float8 FROM slots_watch),
    (SELECT coalesce(extract(epoch FROM clock_timestamp() - failing_since), 0)::float8
        FROM slots_watch),
    (SELECT count(*) FROM bots_webhookdelivery WHERE due_at IS NOT NULL),
    (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(counted_until)), 0)::float8
        FROM botpool_tallymark),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    current_setting('max_connections')::int,
    pg_database_size(current_database())
"""


def _signs_of_life(prefix: str) -> Iterator[Metric]:
    row = fetch_one(_SIGNS_OF_LIFE, {})
    assert row is not None
    seen, host, looked, failing, due, uncounted, connections, most, size = row
    leads = seen is not None and seen <= LEASE_TTL.total_seconds()
    ticker = GaugeMetricFamily(
        f"{prefix}ticker_leader", "1 for the host whose ticker leads.", labels=["host"]
    )
    ticker.add_metric([host if leads and host else "none"], float(leads))
    yield ticker
    for name, text, value in (
        ("watch_age_seconds", "Since Coolify was last looked at with success.", looked),
        ("watch_failing_seconds", "For how long looking at Coolify has failed.", failing),
        ("webhooks_due", "Webhook deliveries that are not over.", due),
        ("counters_age_seconds", "Up to how long ago the counters are complete.", uncounted),
        (
            "database_connections",
            "Connections to this database, PgBouncer's included.",
            connections,
        ),
        ("database_max_connections", "How many PostgreSQL allows.", most),
        ("database_bytes", "The size of the database.", size),
    ):
        yield GaugeMetricFamily(f"{prefix}{name}", text, value or 0)


def _budget(prefix: str, report: BudgetReport) -> Iterator[Metric]:
    yield _calls(prefix, report)
    left = GaugeMetricFamily(
        f"{prefix}coolify_budget_left", "Calls that may be made at once.", labels=["class"]
    )
    for call_class, each in report.classes.items():
        left.add_metric([call_class], each.left)
    yield left
    for name, text, value in (
        ("limit", "Calls a minute that Botpool allows itself.", report.limit),
        ("spent", "Calls made within the last minute.", report.spent),
    ):
        yield GaugeMetricFamily(f"{prefix}coolify_budget_{name}", text, value)
    yield GaugeMetricFamily(
        f"{prefix}coolify_circuit_open",
        "1 while Coolify is not called because it failed too often.",
        float(report.circuit != "closed"),
    )
    for name, text, total in (
        ("pauses", "Pauses that Coolify asked for (429).", report.times_paused),
        ("circuit_openings", "How often Coolify failed too often.", report.times_opened),
        ("spent_by_others", "Calls of others on our account.", report.spent_by_others),
    ):
        yield CounterMetricFamily(f"{prefix}coolify_{name}", text, value=total)
    yield _held_back(prefix)


def _calls(prefix: str, report: BudgetReport) -> Metric:
    family = CounterMetricFamily(
        f"{prefix}coolify_calls",
        "Calls to Coolify: granted, refused by the budget and why, or failed and how.",
        labels=["class", "call", "outcome", "reason"],
    )
    for call in report.calls:
        if call.outcome == GRANTED:
            outcome, reason = "granted", ""
        elif call.outcome.startswith(REFUSED):
            outcome, reason = "refused", call.outcome.removeprefix(REFUSED)
        else:
            outcome, reason = "failed", call.outcome
        family.add_metric([call.call_class, call.name, outcome, reason], call.total)
    return family


_HELD_BACK = """
SELECT coalesce(greatest(extract(epoch FROM
    greatest(max(paused_until), max(open_until)) - clock_timestamp()), 0), 0)::float8
FROM coolify_budget
"""


def _held_back(prefix: str) -> Metric:
    row = fetch_one(_HELD_BACK, {})
    return GaugeMetricFamily(
        f"{prefix}coolify_held_back_seconds",
        "For how much longer no call is made.",
        row[0] if row else 0.0,
    )
