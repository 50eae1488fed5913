"""Acquire and release a slot, with its history, through the product's own functions.

The references run on the same server: pgbench with (a) bare claim and release statements, and (b)
the statements that the product sends, recorded from one cycle, in the same order and transactions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import connection

from bench.clients import measure
from bench.pgbench import Speed, pgbench
from bench.statements import recorded, with_variables
from bench.table import Row
from bots.models import Bot
from bots.moves import Outcome
from bots.status import BotStatus
from pool.assign import assign_bot_to_slot
from pool.lifecycle import confirm_slot_stopped, release_bot_from_slot
from slots.models import Slot
from slots.status import SlotStatus

CLIENTS = (1, 8, 32)
SLOTS = (100, 10_000)
SECONDS = 4
BOTS_PER_CLIENT = 20_000
CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "bench")
# The share of (a) that 8 clients reached with hand-written SQL. The ORM may cost a quarter of it.
WITH_SQL = {100: 0.16, 10_000: 0.18}
STATEMENTS = 4


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
    least = 0.75 * WITH_SQL[slots]
    aimed = clients == 8
    return [
        Row(
            figure=name,
            value=value,
            reference=f"(a) bare statements {bare.cycles_per_second:.0f}/s",
            ratio=of_bare,
            aim=f"≥ {least:.2f}" if aimed else "",
            met=of_bare >= least if aimed else None,
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
    same_statements = _same_statements()
    _fill(slots=slots, bots=clients * BOTS_PER_CLIENT)
    with _no_triggers():
        bare = pgbench(_BARE, clients=clients, seconds=SECONDS, n=0)
    _fill(slots=slots, bots=clients * BOTS_PER_CLIENT)
    same = pgbench(same_statements, clients=clients, seconds=SECONDS, n=0)
    _fill(slots=slots, bots=clients * BOTS_PER_CLIENT)
    ours = measure(_cycle, clients=clients, seconds=SECONDS)
    return bare, same, ours


# --- A cycle ----------------------------------------------------------------------------------


def _cycle(client: int, number: int) -> None:
    slot = _assign(1 + client * BOTS_PER_CLIENT + number)
    _release(slot)
    _confirm(slot)


def _assign(bot_id: int) -> Slot:
    bot = Bot(
        pk=bot_id,
        platform="google-meet",
        correlation_id="c",
        queue_timeout=timedelta(minutes=5),
        created_at=datetime.now(UTC),
    )
    slot = assign_bot_to_slot(bot, reason="Bot requested", actor="bench")
    assert slot is not None
    return slot


def _release(slot: Slot) -> None:
    assert release_bot_from_slot(slot, CANCELLED)
    slot.epoch += 1
    slot.assigned_bot = None
    slot.status = SlotStatus.STOPPING


def _confirm(slot: Slot) -> None:
    assert confirm_slot_stopped(slot, reason="The container is gone", actor="bench")


def _round_trips() -> Row:
    _fill(slots=10, bots=10)
    _assign(1)  # the first one in a new database also takes note of the pool's size
    sent = recorded(partial(_assign, 2)).count(";\n") - 2
    return Row(
        figure="round trips of an acquire with assignment and history",
        value=f"{sent} beyond BEGIN and COMMIT",
        reference=f"slot claimed, slot, bot and deployment written: {STATEMENTS}",
        ratio=sent / STATEMENTS,
        aim=f"≤ {STATEMENTS}",
        met=sent <= STATEMENTS,
    )


def _fill(*, slots: int, bots: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE bots_bot, bots_botevent, slots_slot, slots_slottransition, slots_deployment,"
            " queues_queueentry, slots_warmimage RESTART IDENTITY CASCADE"
        )
        cursor.execute(_IMAGE, [settings.BOT_IMAGES["google-meet"]])
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

_IMAGE = "INSERT INTO slots_warmimage (image, server_uuid) VALUES (%s, '')"

_SLOTS = """
INSERT INTO slots_slot (platform, number, name, coolify_uuid, status)
SELECT 'google-meet', n, 'pool-google-meet-' || n, 'app-' || n, 'idle'
FROM generate_series(1, %s) AS n
"""


# --- The references ---------------------------------------------------------------------------


@contextmanager
def _no_triggers() -> Iterator[None]:
    """Bare statements write no history and wake nothing."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE slots_slot DISABLE TRIGGER USER")
        yield
        cursor.execute("ALTER TABLE slots_slot ENABLE TRIGGER USER")


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

# Of the one bot and slot in a recorded cycle: values that occur nowhere else in its statements.
_BOT, _SLOT, _EPOCH = 900_000_001, 900_000_002, 900_000_003
_NAME, _UUID = "recorded-slot", "recorded-application"


def _same_statements() -> str:
    """The product's own statements, with pgbench's variables as values."""
    _fill(slots=1, bots=1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE bots_bot SET id = %s", [_BOT])
        cursor.execute(
            "UPDATE slots_slot SET id = %s, name = %s, coolify_uuid = %s, epoch = %s",
            [_SLOT, _NAME, _UUID, _EPOCH],
        )
    slots: list[Slot] = []
    script = recorded(lambda: slots.append(_assign(_BOT)))
    begin, claim, rest = script.split("\n", 2)
    after_claim = "\\set assigned :s_epoch + 1\n\\set released :s_epoch + 2\n"
    script = f"{begin}\n{claim.removesuffix(';')} \\gset s_\n{after_claim}{rest}"
    script += recorded(partial(_release, slots[0])) + recorded(partial(_confirm, slots[0]))
    variables = {
        str(_BOT): ":bot",
        str(_SLOT): ":s_id",
        str(_EPOCH + 1): ":assigned",
        str(_EPOCH + 2): ":released",
        _NAME: ":s_name",
        _UUID: ":s_coolify_uuid",
    }
    return _NEXT_BOT + with_variables(script, variables)
