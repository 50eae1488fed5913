"""Acquire and release a slot, with its history, through the product's own functions.

The references run on the same server: pgbench with (a) bare claim and release statements, and (b)
the statements that the product sends, in the same order and transactions.
"""

import re
from collections.abc import Mapping
from typing import Any

from django.db import connection

from bench.clients import measure
from bench.pgbench import Speed, pgbench
from bench.table import Row
from bots.models import Bot
from bots.moves import _MOVE as MOVE_BOT
from bots.moves import Outcome
from bots.status import BotStatus
from pool.assign import _RECORD_ASSIGNMENT, assign_bot_to_slot
from pool.claim import _CLAIM_IDLE
from pool.lifecycle import confirm_slot_stopped, release_bot_from_slot
from slots.moves import _MOVE as MOVE_SLOT
from slots.status import SlotStatus

CLIENTS = (1, 8, 32)
SLOTS = (100, 10_000)
SECONDS = 4
BOTS_PER_CLIENT = 20_000
CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "bench")


def run() -> list[Row]:
    rows = [_round_trips()]
    at_8: dict[int, Speed] = {}
    for slots in SLOTS:
        for clients in CLIENTS:
            bare, same, ours = _measure(slots=slots, clients=clients)
            rows += _compare(slots, clients, bare=bare, same=same, ours=ours)
            if clients == 8:
                at_8[slots] = ours
    small, large = at_8[SLOTS[0]], at_8[SLOTS[1]]
    growth = large.p50_ms / small.p50_ms
    rows.append(
        Row(
            figure="acquire+release p50, 10,000 slots, 8 clients",
            value=f"{large.p50_ms:.2f} ms",
            reference=f"100 slots: {small.p50_ms:.2f} ms",
            ratio=growth,
            aim="no growth (≤ 1.3)",
            met=growth <= 1.3,
        )
    )
    return rows


def _compare(slots: int, clients: int, *, bare: Speed, same: Speed, ours: Speed) -> list[Row]:
    value = f"{ours.cycles_per_second:.0f}/s, p50 {ours.p50_ms:.1f} ms, p99 {ours.p99_ms:.1f} ms"
    name = f"acquire+release, {slots} slots, {clients} clients"
    of_bare = ours.cycles_per_second / bare.cycles_per_second
    of_same = ours.cycles_per_second / same.cycles_per_second
    aimed = clients == 8
    return [
        Row(
            figure=name,
            value=value,
            reference=f"(a) bare statements {bare.cycles_per_second:.0f}/s",
            ratio=of_bare,
        ),
        Row(
            figure=name,
            value=value,
            reference=f"(b) the same statements {same.cycles_per_second:.0f}/s",
            ratio=of_same,
            aim="≥ 0.35" if aimed else "",
            met=of_same >= 0.35 if aimed else None,
        ),
    ]


def _measure(*, slots: int, clients: int) -> tuple[Speed, Speed, Speed]:
    _fill(slots=slots, bots=clients * BOTS_PER_CLIENT)
    bare = pgbench(_BARE, clients=clients, seconds=SECONDS, n=0)
    _fill(slots=slots, bots=clients * BOTS_PER_CLIENT)
    same = pgbench(_same_statements(), clients=clients, seconds=SECONDS, n=0)
    _fill(slots=slots, bots=clients * BOTS_PER_CLIENT)
    ours = measure(_cycle, clients=clients, seconds=SECONDS)
    return bare, same, ours


def _cycle(client: int, number: int) -> None:
    bot = Bot(pk=1 + client * BOTS_PER_CLIENT + number, platform="google-meet", correlation_id="c")
    slot = assign_bot_to_slot(bot, reason="Bot requested", actor="bench")
    assert slot is not None
    assert release_bot_from_slot(slot, CANCELLED)
    slot.epoch += 1
    slot.assigned_bot_id = None
    slot.status = SlotStatus.STOPPING
    assert confirm_slot_stopped(slot, reason="The container is gone", actor="bench")


def _round_trips() -> Row:
    _fill(slots=10, bots=10)
    sent: list[str] = []

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sent.append(sql)
        return execute(sql, params, many, context)

    bot = Bot(pk=1, platform="google-meet", correlation_id="c")
    with connection.execute_wrapper(count):
        assign_bot_to_slot(bot, reason="Bot requested", actor="bench")
    return Row(
        figure="round trips of an acquire with assignment and history",
        value=f"{len(sent)} beyond BEGIN and COMMIT",
        reference="2",
        ratio=len(sent) / 2,
        aim="≤ 2",
        met=len(sent) <= 2,
    )


def _fill(*, slots: int, bots: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE bots_bot, bots_botevent, slots_slot, slots_slottransition, slots_deployment,"
            " queues_queueentry RESTART IDENTITY CASCADE"
        )
        cursor.execute(_BOTS, [bots])
        cursor.execute(_SLOTS, [slots])
        cursor.execute("VACUUM ANALYZE bots_bot, slots_slot")


_BOTS = """
INSERT INTO bots_bot (
    correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout, status,
    previous_status, failure_reason, failure_kind, placements, slot_name, coolify_service_uuid
)
SELECT
    'c', 'google-meet', 'https://meet.google.com/abc-defg-hij', 'Bot', '{}', 100, '5 minutes',
    'PENDING', '', '', '', 0, '', ''
FROM generate_series(1, %s)
"""

_SLOTS = """
INSERT INTO slots_slot (platform, number, name, coolify_uuid, status)
SELECT 'google-meet', n, 'pool-google-meet-' || n, 'app-' || n, 'idle'
FROM generate_series(1, %s) AS n
"""

_NEXT_BOT = f"\\set n :n + 1\n\\set bot :client_id * {BOTS_PER_CLIENT} + :n\n"

_BARE = (
    _NEXT_BOT
    + """
BEGIN;
UPDATE slots_slot SET status = 'deploying', previous_status = 'idle', assigned_bot_id = :bot,
    epoch = epoch + 1, last_used_at = clock_timestamp()
WHERE id = (
    SELECT id FROM slots_slot
    WHERE platform = 'google-meet' AND status = 'idle' AND NOT cordoned
    ORDER BY last_used_at NULLS FIRST, number LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id AS slot \\gset
COMMIT;
BEGIN;
UPDATE slots_slot SET status = 'idle', previous_status = 'stopping', assigned_bot_id = NULL,
    epoch = epoch + 1 WHERE id = :slot;
COMMIT;
"""
)


def _same_statements() -> str:
    """The product's own statements, with pgbench's variables as values."""
    claim = {"bot": ":bot", "platform": "'google-meet'"}
    known = {
        "bot": ":bot",
        "slot": ":s_id",
        "slot_name": "':s_name'",
        "coolify_uuid": "':s_coolify_uuid'",
        "epoch": ":s_epoch",
        "since": "':s_status_since'",
        "from_status": "':s_previous_status'",
        "lasted": "':s_previous_lasted'",
        "image": "'registry.example/meeting-bot-google-meet:latest'",
        "server": "':s_server_uuid'",
        "reason": "'Bot requested'",
        "actor": "'bench'",
    }
    return (
        f"{_NEXT_BOT}BEGIN;\n{_fill_in(_CLAIM_IDLE, claim)} \\gset s_\n"
        f"{_fill_in(_RECORD_ASSIGNMENT, known)};\nCOMMIT;\n"
        f"BEGIN;\n{_fill_in(MOVE_BOT, _bot_cancelled())};\n"
        f"{_fill_in(MOVE_SLOT, _slot_moved('stopping', epochs=1))};\nCOMMIT;\n"
        f"\\set s_epoch :s_epoch + 1\n"
        f"{_fill_in(MOVE_SLOT, _slot_moved('idle', epochs=0))};\n{_drain_statements()}"
    )


def _bot_cancelled() -> dict[str, str]:
    return {
        "bot": ":bot",
        "to": "'CANCELLED'",
        "is_end": "true",
        "allowed_from": "'{PENDING,QUEUED,DEPLOYING,JOINING_CALL,IN_CALL,LEAVING}'",
        "failure_reason": "''",
        "failure_kind": "''",
        "reason": "'Not needed'",
        "actor": "'bench'",
        "epoch": ":s_epoch",
    }


def _slot_moved(to: str, *, epochs: int) -> dict[str, str]:
    return {
        "slot": ":s_id",
        "epoch": ":s_epoch",
        "bot": ":bot" if epochs else "NULL",
        "to": f"'{to}'",
        "allowed_from": "'{deploying,busy,stopping,idle,error}'",
        "stays_held": "false",
        "epochs": str(epochs),
        "reason": "'Not needed'",
        "actor": "'bench'",
        "correlation_id": "''",
        "error": "''",
        "recreate": "false",
        "deployment_ends_as": "'cancelled'",
    }


def _drain_statements() -> str:
    """The statements that a drain sends after a slot becomes free, with an empty queue."""
    sent: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        sent.append(context["cursor"].cursor._query.query.decode())
        return result

    from pool.drain import drain

    with connection.execute_wrapper(note):
        drain("google-meet")
    return "".join(f"{' '.join(sql.split())};\n" for sql in sent)


def _fill_in(sql: str, values: Mapping[str, str]) -> str:
    filled = re.sub(r"%\((\w+)\)s", lambda match: values[match[1]], sql).replace("%%", "%")
    return " ".join(filled.split())
