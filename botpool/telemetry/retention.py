"""What is kept, for how long, and how the rest is taken away: in small batches, by age.

A bot that has not ended keeps all of its history, however old. What is counted into metrics goes
only after it has been counted (botpool.telemetry.counters).
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

from core.sql import fetch_one

logger = logging.getLogger(__name__)

# A worker's task may take a minute; what is left is the next run's.
LONGEST_RUN = 20.0
KEEP_WITHOUT_DEED = timedelta(days=1)

_COUNTED = """coalesce((
    SELECT min(counted_until) - interval '1 hour' FROM botpool_tallymark WHERE source = ANY(%s)
), '-infinity')"""
_ITS_BOT_LIVES = """EXISTS (
    SELECT FROM bots_bot WHERE bots_bot.id = bot_id AND bots_bot.ended_at IS NULL
)"""


@dataclass(frozen=True, kw_only=True)
class History:
    """One kind of history: which rows may go, and what goes with them."""

    name: str
    keep: str  # the name of the setting
    table: str
    old: str  # the condition; %(keep)s is how long they are kept
    key: str = "id"
    with_it: tuple[str, ...] = ()  # deletions that belong to the same statement, by `doomed`

    @property
    def doomed(self) -> str:
        return f"SELECT {self.key} AS id FROM {self.table} WHERE {self.old}"  # noqa: S608

    @property
    def parameters(self) -> dict[str, object]:
        return {
            "keep": getattr(settings, self.keep) if self.keep else timedelta(),
            "without_deed": min(KEEP_WITHOUT_DEED, settings.KEEP_FINDINGS),
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
        # Not of an open webhook, else its events would be noted, and sent, once more.
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
            """DELETE FROM bots_webhookdelivery USING doomed, bots_webhook
                WHERE bots_webhook.bot_id = doomed.id AND webhook_id = bots_webhook.id""",
            "DELETE FROM bots_webhook USING doomed WHERE bot_id = doomed.id",
        ),
    ),
    History(
        name="slot transitions",
        keep="KEEP_TRANSITIONS",
        table="slots_slottransition",
        old=f"""at < least(clock_timestamp() - %(keep)s, {_counted("slot transitions")})
            AND NOT {_ITS_BOT_LIVES}""",
    ),
    History(
        name="deployments",
        keep="KEEP_DEPLOYMENTS",
        table="slots_deployment",
        old=f"""ended_at < least(clock_timestamp() - %(keep)s, {_counted("deployments")})
            AND NOT pulling AND NOT {_ITS_BOT_LIVES}""",
    ),
    History(
        name="findings",
        keep="KEEP_FINDINGS",
        table="slots_finding",
        old=f"""ended_at < least(
            clock_timestamp() - CASE WHEN acted_at IS NULL THEN %(without_deed)s ELSE %(keep)s END,
            {_counted("findings")}
        )""",
    ),
    History(
        name="task results",
        keep="KEEP_TASK_RESULTS",
        table="django_q_task",
        old="stopped < clock_timestamp() - %(keep)s",
    ),
    History(
        name="operators' actions",
        keep="KEEP_OPERATOR_ACTIONS",
        table="botpool_operatoraction",
        old="at < clock_timestamp() - %(keep)s",
    ),
    History(
        name="actions in the admin",
        keep="KEEP_OPERATOR_ACTIONS",
        table="django_admin_log",
        old="action_time < clock_timestamp() - %(keep)s",
    ),
    History(
        # Not used for as long as deployments are remembered, and no longer warm.
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
    """The periodic work."""
    for name, count in prune():
        if count:
            logger.info("Pruned %d %s", count, name)


def prune(*, longest: float = LONGEST_RUN) -> Iterator[tuple[str, int]]:
    """Delete what is older than it is kept, for a limited time: how many of each kind."""
    end = time.monotonic() + longest
    for history in HISTORIES:
        count = 0
        while batch := _prune_batch(history):
            count += batch
            if batch < settings.PRUNE_BATCH or time.monotonic() > end:
                break
        yield history.name, count


def count_old() -> Iterator[tuple[str, int]]:
    """What `prune` would delete now, if given the time."""
    for history in HISTORIES:
        sql = f"SELECT count(*) FROM ({history.doomed}) AS doomed"  # noqa: S608
        yield history.name, _number(sql, history)


def _prune_batch(history: History) -> int:
    companions = [f"gone_{n} AS ({sql})" for n, sql in enumerate(history.with_it)]
    parts = [
        # A row that somebody holds at this moment is left to the next batch.
        f"doomed AS ({history.doomed} LIMIT %(batch)s FOR UPDATE SKIP LOCKED)",
        *companions,
        f"gone AS (DELETE FROM {history.table} USING doomed "  # noqa: S608
        f"WHERE {history.table}.{history.key} = doomed.id RETURNING 1)",
    ]
    return _number(f"WITH {', '.join(parts)} SELECT count(*) FROM gone", history)  # noqa: S608


def _number(sql: str, history: History) -> int:
    row = fetch_one(sql, history.parameters)
    assert row is not None
    number: int = row[0]
    return number
