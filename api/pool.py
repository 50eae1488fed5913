"""The pool as clients see it, and the forced release for operators."""

from typing import Annotated

from django.db.models import Count
from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import BaseModel, Field

from api.access import ClientKey, OperatorKey, key_of
from api.positions import list_waiters
from api.problems import Problem
from api.schemas.parameters import refuse_unknown_parameters
from api.schemas.pool import (
    PoolOfPlatform,
    PoolOut,
    QueueOut,
    Release,
    SlotCounts,
    SlotList,
    SlotOut,
    slot_out,
)
from bots.moves import Outcome
from bots.status import BotStatus, FailureCause, Platform
from pool.capacity import pool_sizes
from pool.lifecycle import release_bot_from_slot
from queues.models import QueueEntry
from slots.models import Slot
from slots.status import SlotStatus

router = Router(tags=["Pool"], auth=ClientKey(), by_alias=True)
router.add_decorator(refuse_unknown_parameters)

SlotName = Annotated[
    str, Path(alias="slotName", min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")
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
    return SlotList(slots=[slot_out(slot) for slot in slots])


class QueueFilter(BaseModel):
    platform: Platform | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 1000


@router.get(
    "/queue", response=QueueOut, summary="List waiting bots in order", operation_id="listQueue"
)
def list_queue(request: HttpRequest, filters: Query[QueueFilter]) -> QueueOut:
    return list_waiters(platform=filters.platform, limit=filters.limit)


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
