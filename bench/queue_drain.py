"""The time to give a freed slot to the next bot in the queue, with few and with many waiting."""

import time
from statistics import median

from django.db import connection

from bench.table import Row
from bots.moves import Outcome
from bots.status import BotStatus
from pool.drain import drain
from pool.lifecycle import confirm_slot_stopped, release_bot_from_slot
from slots.models import Slot

FEW, MANY = 100, 100_000
SLOTS = 40
ROUNDS = 200
CANCELLED = Outcome(BotStatus.CANCELLED, "Not needed", "bench")


def run() -> list[Row]:
    few, many = _handovers(FEW), _handovers(MANY)
    growth = median(many) / median(few)
    return [
        Row(
            figure=f"slot freed to next bot assigned, median, {MANY:,} waiters",
            value=f"{median(many):.1f} ms",
            reference=f"{FEW} waiters: {median(few):.1f} ms",
            ratio=growth,
            aim="no growth (≤ 1.3)",
            met=growth <= 1.3,
        ),
        Row(
            figure="slot freed to next bot assigned, median and worst",
            value=f"{median(few + many):.1f} ms, {max(few + many):.0f} ms",
            reference="100 ms, 1 s",
            ratio=median(few + many) / 100,
            aim="below the reference",
            met=median(few + many) < 100 and max(few + many) < 1000,
        ),
    ]


def _handovers(waiters: int) -> list[float]:
    """Milliseconds from the confirmed stop of a container until the next bot has its slot.

    The queue keeps its length: in each round one bot leaves it and one joins at the end.
    """
    _fill(waiters)
    return [_hand_over() for _ in range(ROUNDS)]


def _hand_over() -> float:
    slot = Slot.objects.filter(status="deploying").order_by("last_assigned_at").first()
    assert slot is not None
    before = slot.epoch
    assert release_bot_from_slot(slot, CANCELLED)
    slot.refresh_from_db()
    begin = time.perf_counter()
    assert confirm_slot_stopped(slot, reason="The container is gone", actor="bench")
    took = (time.perf_counter() - begin) * 1000
    slot.refresh_from_db()
    assert slot.epoch == before + 2
    _join_at_the_end(1)
    return took


def _fill(waiters: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE bots_bot, slots_slot, slots_pool, bots_botevent CASCADE")
        cursor.execute("TRUNCATE slots_slottransition")
        cursor.execute(
            "INSERT INTO slots_pool (platform, max_size) VALUES ('google-meet', %s)", [SLOTS]
        )
        cursor.execute(_SLOTS, {"count": SLOTS})
    _join_at_the_end(waiters + SLOTS)
    # Assign all slots: from here on each waiter needs a slot to become free.
    assert len(drain("google-meet")) == SLOTS


_SLOTS = """
INSERT INTO slots_slot (platform, number, name, coolify_uuid, status)
SELECT 'google-meet', n, 'pool-google-meet-' || n, 'app-' || n, 'idle'
FROM generate_series(1, %(count)s) AS n
"""

_JOIN = """
WITH joined AS (
    INSERT INTO bots_bot (
        correlation_id, platform, meeting_url, display_name, config, priority, queue_timeout,
        status, previous_status, failure_reason, failure_kind,
        placements, slot_name, coolify_service_uuid, queued_at, created_at
    )
    SELECT
        'bench', 'google-meet', 'https://meet.google.com/abc', 'Notetaker', '{}', 100, '1 hour',
        'QUEUED', 'PENDING', '', '', 0, '', '', now(), now() + n * interval '1 us'
    FROM generate_series(1, %(count)s) AS n
    RETURNING *
)
INSERT INTO queues_queueentry (bot_id, platform, priority, queued_at, timeout_at, ageing)
SELECT id, platform, priority, created_at, now() + queue_timeout, '2 s' FROM joined
"""


def _join_at_the_end(count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_JOIN, {"count": count})
