"""Retention: which history is kept for how long. The rest is deleted in small batches, by age.

A bot that has not ended keeps all its history, however old. History that metrics count is deleted
only after it was counted (botpool.telemetry.counters).
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

from core.sql import fetch_one

logger = logging.getLogger(__name__)

# Seconds. A task may take a minute; the next run deletes the rest.
LONGEST_RUN = 20.0
KEEP_WITHOUT_REPAIR = timedelta(days=1)

_COUNTED = """coalesce((
    SELECT min(counted_until) - interval '1 hour' FROM botpool_tallymark WHERE source = ANY(%s)
), '-infinity')"""
_BOT_IS_ACTIVE = """EXISTS (
    SELECT FROM bots_bot WHERE bots_bot.id = bot_id AND bots_bot.ended_at IS NULL
)"""


@dataclass(frozen=True, kw_only=True)
class History:
    """One kind of history: which rows to delete, and what to delete with them."""

    name: str
    keep: str  # name of the setting
    table: str
    old: str  # condition; %(keep)s is the retention
    key: str = "id"
    with_it: tuple[str, ...] = ()  # deletions in the same statement, which use `doomed`

    @property
    def doomed(self) -> str:
        return f"SELECT {self.key} AS id FROM {self.table} WHERE {self.old}"  # noqa: S608

    @property
    def parameters(self) -> dict[str, object]:
        return {
            "keep": getattr(settings, self.keep) if self.keep else timedelta(),
            "without_repair": min(KEEP_WITHOUT_REPAIR, settings.KEEP_FINDINGS),
            "warm_for": settings.IMAGE_WARM_FOR,
            "batch": settings.PRUNE_BATCH,
        }


def _counted(*sources: str) -> str:
    return _COUNTED % ("ARRAY[" + ", ".join(f"'{source}'" for source in sources) + "]")


HISTORIES = (
    History(
        name="webhook deliveries",
        keep="KEEP_WEBHOOK_DELIVERIES",
        table="bots_webhookdelivery",
        # An open webhook keeps them: its events would be noted and sent again.
        old="""due_at IS NULL AND created_at < clock_timestamp() - %(keep)s AND NOT EXISTS (
            SELECT FROM bots_webhook WHERE bots_webhook.id = webhook_id AND is_open
        )""",
    ),
    History(
        name="bots",
        keep="KEEP_BOTS",
        table="bots_bot",
        old=f"""ended_at < least(
                clock_timestamp() - %(keep)s, {_counted("bot events", "deployments")}
            )
            AND NOT EXISTS (SELECT FROM slots_slot WHERE assigned_bot_id = bots_bot.id)
            AND NOT EXISTS (SELECT FROM queues_queueentry WHERE bot_id = bots_bot.id)
            AND NOT EXISTS (
                SELECT FROM bots_webhook AS webhook WHERE webhook.bot_id = bots_bot.id AND (
                    webhook.is_open OR EXISTS (
                        SELECT FROM bots_webhookdelivery
                        WHERE webhook_id = webhook.id AND due_at IS NOT NULL
                    )
                )
            )""",  # noqa: S608
        with_it=(
            "DELETE FROM bots_botevent USING doomed WHERE bot_id = doomed.id",
            "DELETE FROM bots_requestname USING doomed WHERE bot_id = doomed.id",
            "DELETE FROM slots_keptlog USING doomed WHERE bot_id = doomed.id",
            """DELETE FROM bots_webhookdelivery USING doomed, bots_webhook
                WHERE bots_webhook.bot_id = doomed.id AND webhook_id = bots_webhook.id""",
            "DELETE FROM bots_webhook USING doomed WHERE bot_id = doomed.id",
        ),
    ),
    History(
        # Of addresses in requests whose bots are gone. A new one could have no webhook yet.
        name="webhook endpoints",
        keep="KEEP_BOTS",
        table="bots_webhookendpoint",
        old="""NOT is_named AND created_at < clock_timestamp() - %(keep)s AND NOT EXISTS (
            SELECT FROM bots_webhook WHERE endpoint_id = bots_webhookendpoint.id
        )""",
    ),
    History(
        name="slot transitions",
        keep="KEEP_TRANSITIONS",
        table="slots_slottransition",
        old=f"""at < least(clock_timestamp() - %(keep)s, {_counted("slot transitions")})
            AND NOT {_BOT_IS_ACTIVE}""",
    ),
    History(
        name="deployments",
        keep="KEEP_DEPLOYMENTS",
        table="slots_deployment",
        old=f"""ended_at < least(clock_timestamp() - %(keep)s, {_counted("deployments")})
            AND NOT pulling AND NOT {_BOT_IS_ACTIVE}""",
    ),
    History(
        name="logs",
        keep="KEEP_LOGS",
        table="slots_keptlog",
        old="created_at < clock_timestamp() - %(keep)s",
    ),
    History(
        # Of pages that followed a container.
        name="log readings",
        keep="KEEP_LOGS",
        table="slots_logreading",
        key="slot_id",
        old="""coalesce(asked_at, '-infinity') < clock_timestamp()
            - least(%(keep)s, interval '1 hour')""",
    ),
    History(
        name="findings",
        keep="KEEP_FINDINGS",
        table="slots_finding",
        old=f"""ended_at < least(
            clock_timestamp()
                - CASE WHEN acted_at IS NULL THEN %(without_repair)s ELSE %(keep)s END,
            {_counted("findings")}
        )""",
    ),
    History(
        name="notifications",
        keep="KEEP_NOTIFICATIONS",
        table="botpool_message",
        old=f"""ended_at < least(
            clock_timestamp() - %(keep)s, {_counted("notifications")}
        )""",
    ),
    History(
        name="conditions",
        keep="KEEP_NOTIFICATIONS",
        table="botpool_condition",
        old="resolved_at < clock_timestamp() - %(keep)s",
        with_it=("DELETE FROM botpool_notice USING doomed WHERE condition_id = doomed.id",),
    ),
    History(
        name="task results",
        keep="KEEP_TASK_RESULTS",
        table="django_q_task",
        old="stopped < clock_timestamp() - %(keep)s",
    ),
    History(
        name="operator actions",
        keep="KEEP_OPERATOR_ACTIONS",
        table="botpool_operatoraction",
        old="at < clock_timestamp() - %(keep)s",
    ),
    History(
        name="admin actions",
        keep="KEEP_OPERATOR_ACTIONS",
        table="django_admin_log",
        old="action_time < clock_timestamp() - %(keep)s",
    ),
    History(
        name="pre-pulls",
        keep="KEEP_DEPLOYMENTS",
        table="slots_prepull",
        old="""ended_at < clock_timestamp() - %(keep)s AND NOT pulling AND coolify_uuid = ''
            AND application_asked_at IS NULL""",
    ),
    History(
        # Unused for as long as deployments are kept, and no longer warm.
        name="images",
        keep="KEEP_DEPLOYMENTS",
        table="slots_warmimage",
        old="""warmed_at < clock_timestamp() - greatest(%(keep)s, %(warm_for)s) AND NOT EXISTS (
            SELECT FROM slots_deployment AS deployment
            WHERE deployment.image = slots_warmimage.image
                AND deployment.server_uuid = slots_warmimage.server_uuid
        )""",
    ),
    History(
        name="sessions",
        keep="",
        table="django_session",
        key="session_key",
        old="expire_date < clock_timestamp() - %(keep)s",
    ),
)


def run_pruning() -> None:
    """Prune as periodic work, and log what was deleted."""
    for name, count in prune():
        if count:
            logger.info("Pruned %d %s", count, name)


def prune(*, longest: float = LONGEST_RUN) -> Iterator[tuple[str, int]]:
    """Delete old history for a limited time; yield how much of each kind was deleted."""
    end = time.monotonic() + longest
    for history in HISTORIES:
        count = 0
        while batch := _prune_batch(history):
            count += batch
            if batch < settings.PRUNE_BATCH or time.monotonic() > end:
                break
        yield history.name, count


def count_old() -> Iterator[tuple[str, int]]:
    """Yield how much `prune` would delete now, given enough time."""
    for history in HISTORIES:
        sql = f"SELECT count(*) FROM ({history.doomed}) AS doomed"  # noqa: S608
        yield history.name, _number(sql, history)


def _prune_batch(history: History) -> int:
    companions = [f"gone_{n} AS ({sql})" for n, sql in enumerate(history.with_it)]
    clauses = [
        # Rows that another process has locked are left to a later batch.
        f"doomed AS ({history.doomed} LIMIT %(batch)s FOR UPDATE SKIP LOCKED)",
        *companions,
        f"gone AS (DELETE FROM {history.table} USING doomed "  # noqa: S608
        f"WHERE {history.table}.{history.key} = doomed.id RETURNING 1)",
    ]
    return _number(f"WITH {', '.join(clauses)} SELECT count(*) FROM gone", history)  # noqa: S608


def _number(sql: str, history: History) -> int:
    row = fetch_one(sql, history.parameters)
    assert row is not None
    number: int = row[0]
    return number
