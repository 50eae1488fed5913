"""The time from an idle slot to the next bot in it, with all processes of Botpool running.

The bots of a simulated Coolify end their meetings through the API. The times are from the
database: the slot's transition to `idle` and the bot's event `DEPLOYING`.
"""

from statistics import median

from api.keys import create_api_key
from bench.processes import Botpool, SimulatedCoolify, botpool, empty, free_port, until
from bench.table import Row
from core.sql import fetch_all
from queues.models import QueueEntry
from slots.models import SlotTransition

SLOTS = 20
LINE = 40
HANDOVERS = 120
SHORT_MEETING = {"plan": "normal", "meetingSeconds": 1, "joinSeconds": 0, "waitingRoomSeconds": 0}

# A slot that becomes idle while the queue is empty has no next bot and does not count.
_WAITS = """
SELECT extract(epoch FROM given.at - freed.at)::float8 * 1000
FROM slots_slottransition AS freed
CROSS JOIN LATERAL (
    SELECT min(at) AS at FROM bots_botevent
    WHERE slot_name = freed.slot_name AND to_status = 'DEPLOYING' AND at > freed.at
) AS given
WHERE freed.to_status = 'idle' AND given.at IS NOT NULL
"""


def run() -> list[Row]:
    empty()
    changes = {
        "MAX_POOL_SIZE": str(SLOTS),
        "MAX_CONCURRENT_DEPLOYMENTS": "8",
        "COOLIFY_RATE_LIMIT": "100000",
    }
    key = create_api_key(name="queue_freed")
    with (
        SimulatedCoolify(concurrent_builds=8, leave_seconds=0.1) as coolify,
        botpool(coolify, key=key, port=free_port(), **changes) as pool,
    ):
        until(lambda: _enough_handovers(pool), pause=0.1)
        waits = [milliseconds for (milliseconds,) in fetch_all(_WAITS, {})]
    return [
        _row("median", median(waits), most=100, count=len(waits)),
        _row("worst", max(waits), most=1000, count=len(waits)),
    ]


def _row(which: str, milliseconds: float, *, most: int, count: int) -> Row:
    return Row(
        figure=f"slot idle to next bot assigned, all processes running, {which} of {count}",
        value=f"{milliseconds:.1f} ms",
        reference=f"{most} ms",
        ratio=milliseconds / most,
        aim="below the reference",
        met=milliseconds < most,
    )


def _enough_handovers(pool: Botpool) -> bool:
    """Return whether enough slots became free; until then, keep the queue long."""
    for _ in range(LINE - QueueEntry.objects.count()):
        pool.request_bot(SHORT_MEETING)
    return SlotTransition.objects.filter(to_status="idle").count() >= HANDOVERS
