"""Requests and responses about slots and the queue."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from api.schemas.bots import LONGEST_REASON, Incoming, Outgoing, WholeNumber
from api.schemas.words import explained
from bots.names import DISPLAY_NAME, WRONG_DISPLAY_NAME
from bots.status import Platform
from slots.models import Slot
from slots.status import ContainerStatus, SlotStatus

# Of what an operator orders: people read it in histories and logs.
Reason = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_REASON,
        pattern=explained(DISPLAY_NAME, WRONG_DISPLAY_NAME),
    ),
]


class SlotCounts(Outgoing):
    idle: int = 0
    deploying: int = 0
    busy: int = 0
    stopping: int = 0
    error: int = 0


class PoolOfPlatform(Outgoing):
    max_size: int
    total: int
    slots: SlotCounts
    queued: int


class PoolOut(Outgoing):
    platforms: dict[Platform, PoolOfPlatform]


class PressureOfPlatform(Outgoing):
    free: int = Field(description="Slots that a bot could get now, counting room to grow.")
    waiting: int
    expected_wait_ms: int | None = Field(
        description="Until a bot that is requested now would run; null if there is no estimate."
    )
    would_place_now: bool = Field(description="Whether it would get a slot without waiting.")


class PressureOut(Outgoing):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "platforms": {
                        "zoom": {
                            "free": 0,
                            "waiting": 3,
                            "expectedWaitMs": 95000,
                            "wouldPlaceNow": False,
                        }
                    }
                }
            ]
        }
    )

    platforms: dict[Platform, PressureOfPlatform]


class SlotOut(Outgoing):
    slot_name: str
    platform: Platform
    status: SlotStatus
    status_since: datetime
    container_status: ContainerStatus
    coolify_service_uuid: str | None
    bot_id: int | None
    epoch: int
    cordoned: bool
    error: str | None
    recovery_attempts: int
    created_at: datetime
    last_used_at: datetime | None


def slot_out(slot: Slot, *, is_own: bool = True) -> SlotOut:
    """Without `is_own`, leave out what would tell about another client's bot."""
    return SlotOut(
        slot_name=slot.name,
        platform=Platform(slot.platform),
        status=SlotStatus(slot.status),
        status_since=slot.status_since,
        container_status=ContainerStatus(slot.container_status),
        coolify_service_uuid=slot.coolify_uuid or None,
        bot_id=slot.assigned_bot_id if is_own else None,
        epoch=slot.epoch,
        cordoned=slot.cordoned,
        error=(slot.error or None) if is_own else None,
        recovery_attempts=slot.recovery_attempts,
        created_at=slot.created_at,
        last_used_at=slot.last_used_at,
    )


class SlotList(Outgoing):
    slots: list[SlotOut]


class Waiter(Outgoing):
    bot_id: int
    platform: Platform
    priority: int
    queued_at: datetime
    timeout_at: datetime
    queue_position: int
    estimated_wait_ms: int | None


class QueueOut(Outgoing):
    waiters: list[Waiter]
    total: int = Field(description="The number of waiting bots, including those not listed.")


class Release(Incoming):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "The bot hangs", "botId": 123}]}
    )

    reason: Reason
    bot_id: Annotated[
        WholeNumber | None,
        Field(
            description="Release only if this bot holds the slot. A repeated call then cannot hit "
            "the next bot."
        ),
    ] = None
