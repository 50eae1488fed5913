"""The pool as clients see it, and the forced release for operators."""

from typing import Annotated

from django.db.models import Count
from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import BaseModel, Field

from api.access import ClientKey, OperatorKey, key_of
from api.positions import list_waiters, milliseconds
from api.problems import Problem
from api.schemas.parameters import refuse_unknown_parameters
from api.schemas.pool import (
    PoolOfPlatform,
    PoolOut,
    PressureOfPlatform,
    PressureOut,
    QueueOut,
    Release,
    SlotCounts,
    SlotList,
    SlotOut,
    slot_out,
)
from api.schemas.words import explained
from api.visibility import sees_all, visible_bots
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from pool.capacity import pool_sizes
from pool.lifecycle import release_bot_from_slot
from pool.waiting.pressure import Pressure, pressure_on
from queues.models import QueueEntry
from slots.models import Slot
from slots.status import SlotStatus

router = Router(tags=["Pool"], auth=ClientKey(), by_alias=True)
router.add_decorator(refuse_unknown_parameters)

SlotName = Annotated[
    str,
    Path(
        alias="slotName",
        min_length=1,
        max_length=100,
        pattern=explained(
            r"^[A-Za-z0-9._-]+$", "Must have letters, digits, dots, dashes and underscores only."
        ),
    ),
]


@router.get(
    "/pool", response=PoolOut, summary="Count slots and waiting bots", operation_id="getPool"
)
def get_pool(request: HttpRequest) -> PoolOut:
    counts: dict[str, dict[str, int]] = {platform.value: {} for platform in Platform}
    for row in Slot.objects.values("platform", "status").annotate(n=Count("id")).order_by():
        counts[row["platform"]][row["status"]] = row["n"]
    rows = QueueEntry.objects.values("platform").annotate(n=Count("id")).order_by()
    queued = {row["platform"]: row["n"] for row in rows}
    sizes = pool_sizes()
    return PoolOut(
        platforms={
            platform: PoolOfPlatform(
                max_size=sizes[platform.value],
                total=sum(counts[platform.value].values()),
                slots=SlotCounts(**counts[platform.value]),
                queued=queued.get(platform.value, 0),
            )
            for platform in Platform
        }
    )


@router.get(
    "/pool/pressure",
    response=PressureOut,
    summary="See how busy the pool is",
    operation_id="getPressure",
)
def get_pressure(request: HttpRequest) -> PressureOut:
    """For clients that hold back: whether a bot with the usual priority would get a slot now, and
    how long it would wait."""
    client_id = key_of(request).client_id
    return PressureOut(
        platforms={each: _pressure(pressure_on(each, client_id=client_id)) for each in Platform}
    )


def _pressure(found: Pressure) -> PressureOfPlatform:
    return PressureOfPlatform(
        free=found.free,
        waiting=found.waiting,
        expected_wait_ms=milliseconds(found.expected_wait),
        would_place_now=found.would_place_now,
    )


class SlotFilter(BaseModel):
    status: SlotStatus | None = None
    platform: Platform | None = None


@router.get("/slots", response=SlotList, summary="List slots", operation_id="listSlots")
def list_slots(request: HttpRequest, filters: Query[SlotFilter]) -> SlotList:
    slots = Slot.objects.order_by("platform", "number")
    if filters.status:
        slots = slots.filter(status=filters.status)
    if filters.platform:
        slots = slots.filter(platform=filters.platform)
    found = list(slots)
    if sees_all(request):
        return SlotList(slots=[slot_out(slot) for slot in found])
    last_bots = [slot.last_bot_id for slot in found if slot.last_bot_id is not None]
    own = set(visible_bots(request).filter(pk__in=last_bots).values_list("pk", flat=True))
    return SlotList(slots=[slot_out(slot, is_own=slot.last_bot_id in own) for slot in found])


class QueueFilter(BaseModel):
    platform: Platform | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 1000


@router.get(
    "/queue", response=QueueOut, summary="List waiting bots in order", operation_id="listQueue"
)
def list_queue(request: HttpRequest, filters: Query[QueueFilter]) -> QueueOut:
    """Positions count all who wait; a client's key sees its own bots only."""
    only = None if sees_all(request) else visible_bots(request)
    return list_waiters(platform=filters.platform, limit=filters.limit, only=only)


@router.post(
    "/slots/{slotName}/release",
    auth=OperatorKey(),
    response=SlotOut,
    summary="Force the release of a slot",
    operation_id="releaseSlot",
)
def release_slot(request: HttpRequest, slot_name: SlotName, release: Release) -> SlotOut:
    """The slot's bot fails and its container is stopped. Refused with 409 if the slot holds no
    bot, or a bot other than `botId`. Send `botId`: a repeated call then cannot hit the next bot."""
    slot = Slot.objects.filter(name=slot_name).first()
    if slot is None:
        raise Problem(404, f"Slot {slot_name} does not exist.")
    if release.bot_id not in (None, slot.assigned_bot_id):
        raise Problem(409, f"The slot does not hold bot {release.bot_id}. Nothing was released.")
    outcome = Outcome(
        BotStatus.FAILED,
        f"Released by operator: {release.reason}",
        f"key:{key_of(request).name}",
        FailureCause.OPERATOR,
    )
    if not release_bot_from_slot(slot, outcome):
        raise Problem(409, "The slot holds no bot, or its bot has just left. Nothing was released.")
    slot.refresh_from_db()
    return slot_out(slot)
