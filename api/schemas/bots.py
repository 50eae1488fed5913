"""Requests and responses about bots."""

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from api.schemas.bodies import CANNOT_BE_STORED
from api.schemas.words import explained
from api.webhooks.addresses import WrongWebhookAddress, check_webhook_address
from bots.masking import masked_line
from bots.meetings import EXAMPLES, LONGEST_ADDRESS
from bots.models import HIGHEST_PRIORITY_NUMBER, Bot, BotEvent
from bots.names import DISPLAY_NAME, WRONG_DISPLAY_NAME
from bots.secrets.known import without_known_secrets
from bots.status import BotStatus, FailureCause, Platform
from pool.waiting.waiting_for import WaitingCode, WaitingFor

# Coolify cannot start a container whose environment is larger than 97.7 kB, and BOT_DATA contains
# the configuration in base64, which makes it a third larger.
LARGEST_CONFIG = 64 * 1024
MILLISECOND = timedelta(milliseconds=1)
LONGEST_QUEUE_TIMEOUT = settings.MAX_QUEUE_TIMEOUT // MILLISECOND
USUAL_QUEUE_TIMEOUT = settings.DEFAULT_QUEUE_TIMEOUT // MILLISECOND
LONGEST_REASON = 1000


# Plain models: ninja.Schema would look up each field like a variable in a Django template.


class Incoming(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid")


class Outgoing(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


def _whole(value: Any) -> Any:
    """Accept 5.0, a whole number in JSON. Strict mode refuses "5" and true."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, Field(strict=True, ge=1), BeforeValidator(_whole)]
Priority = Annotated[
    int, Field(strict=True, ge=0, le=HIGHEST_PRIORITY_NUMBER), BeforeValidator(_whole)
]
QueueTimeout = Annotated[
    int, Field(strict=True, ge=1, le=LONGEST_QUEUE_TIMEOUT), BeforeValidator(_whole)
]


class NewBot(Incoming):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "meetingUrl": "https://meet.google.com/abc-defg-hij",
                    "botDisplayName": "Notetaker",
                    "priority": 100,
                    "queueTimeoutMs": USUAL_QUEUE_TIMEOUT,
                    "config": {"language": "en"},
                }
            ]
        },
    )

    meeting_url: Annotated[str, Field(min_length=1, max_length=LONGEST_ADDRESS)] = Field(
        description="Known forms: "
        + "; ".join(f"{platform.value}: {form}" for platform, form in EXAMPLES.items()),
        json_schema_extra={"format": "meeting-url"},
    )
    bot_display_name: Annotated[
        str,
        Field(min_length=1, max_length=255, pattern=explained(DISPLAY_NAME, WRONG_DISPLAY_NAME)),
    ] = "Meeting Bot"
    platform: Platform | None = Field(None, description="Derived from meetingUrl if omitted.")
    priority: Priority = Field(100, description="Lower goes first.")
    queue_timeout_ms: QueueTimeout | None = Field(
        None,
        description="How long the bot may wait for a slot, then its image and a build place; "
        f"{USUAL_QUEUE_TIMEOUT} if omitted.",
    )
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="Passed to the bot unchanged. At most 64 KiB and 20 levels deep.",
    )
    dedupe_key: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        None,
        description="Until the bot requested with this API key and dedupeKey ends, further "
        "requests return it with status 200 and create no second bot.",
    )
    webhook_url: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(
        None,
        description="Receives this bot's status changes. Default: the URL of the API key.",
        json_schema_extra={"format": "webhook-url"},
    )

    @field_validator("config")
    @classmethod
    def _config_is_small(cls, config: dict[str, Any]) -> dict[str, Any]:
        if len(json.dumps(config, ensure_ascii=False).encode()) > LARGEST_CONFIG:
            raise PydanticCustomError("size", f"Must be at most {LARGEST_CONFIG} bytes of JSON.")
        return config

    @field_validator("webhook_url")
    @classmethod
    def _webhook_url_is_an_address(cls, url: str | None) -> str | None:
        try:
            return url if url is None else check_webhook_address(url)
        except WrongWebhookAddress as error:
            raise PydanticCustomError("address", "{why}", {"why": str(error)}) from None


class WaitingForOut(Outgoing):
    code: WaitingCode = Field(description="What the bot waits for.")
    message: str = Field(description="The same for people, with times in UTC.")
    position: int | None = Field(description="Its place in that line; 1 is next.")
    expected_at: datetime | None = Field(
        description="When this wait is expected to end; null if there is no estimate."
    )


A_BOT: dict[str, Any] = {
    "id": 7,
    "correlationId": "order-4711",
    "status": "QUEUED",
    "platform": "google-meet",
    "meetingUrl": "https://meet.google.com/abc-defg-hij",
    "botDisplayName": "Notetaker",
    "priority": 100,
    "slotName": None,
    "coolifyServiceUuid": None,
    "failureReason": None,
    "failureCode": None,
    "createdAt": "2026-11-16T09:30:00Z",
    "queuedAt": "2026-11-16T09:30:00Z",
    "startedAt": None,
    "lastHeartbeatAt": None,
    "endedAt": None,
    "waitingFor": {
        "code": "slot",
        "message": "2nd in the Google Meet queue; the bot gives up at 2026-11-16T09:35:00Z.",
        "position": 2,
        "expectedAt": "2026-11-16T09:31:00Z",
    },
}


class BotOut(Outgoing):
    model_config = ConfigDict(json_schema_extra={"examples": [A_BOT]})

    id: int
    correlation_id: str
    status: BotStatus
    platform: Platform
    meeting_url: str
    bot_display_name: str
    priority: int
    slot_name: str | None
    coolify_service_uuid: str | None
    failure_reason: str | None
    failure_code: FailureCause | None = Field(
        description="Why the bot failed, for programs; people read failureReason."
    )
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    last_heartbeat_at: datetime | None
    ended_at: datetime | None
    waiting_for: WaitingForOut | None = Field(
        description="What the bot waits for until it is in its call; null if it does not wait."
    )


def bot_fields(bot: Bot, waiting: WaitingFor | None) -> dict[str, Any]:
    return {
        "id": bot.pk,
        "correlation_id": bot.correlation_id,
        "status": bot.status,
        "platform": bot.platform,
        "meeting_url": bot.meeting_url,
        "bot_display_name": bot.display_name,
        "priority": bot.priority,
        "slot_name": bot.slot_name or None,
        "coolify_service_uuid": bot.coolify_service_uuid or None,
        "failure_reason": bot.failure_reason or None,
        "failure_code": bot.failure_cause or None,
        "created_at": bot.created_at,
        "queued_at": bot.queued_at,
        "started_at": bot.started_at,
        "last_heartbeat_at": bot.last_heartbeat_at,
        "ended_at": bot.ended_at,
        "waiting_for": WaitingForOut(**asdict(waiting)) if waiting else None,
    }


class PlacedBot(Outgoing):
    """The two queue fields are present only while the bot is queued."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"bot": A_BOT, "queuePosition": 2, "estimatedWaitMs": 60000}]
        }
    )

    bot: BotOut
    queue_position: int | None = Field(None, description="1 is next.")
    estimated_wait_ms: int | None = None


class BotInDetail(BotOut):
    """The two queue fields are present only while the bot is queued."""

    queue_position: int | None = Field(None, description="1 is next.")
    estimated_wait_ms: int | None = None


class BotPage(Outgoing):
    bots: list[BotOut]
    next_cursor: str | None = Field(
        description="The `cursor` of the next page; null on the last page."
    )


class EventOut(Outgoing):
    id: int
    at: datetime
    from_status: BotStatus | None
    to_status: BotStatus
    reason: str
    actor: str
    correlation_id: str
    slot_name: str | None
    coolify_service_uuid: str | None
    epoch: int | None


class EventPage(Outgoing):
    events: list[EventOut]
    next_cursor: str | None = Field(
        description="The `cursor` of the next page; null on the last page."
    )


def event_out(event: BotEvent) -> EventOut:
    return EventOut(
        id=event.pk,
        at=event.at,
        from_status=BotStatus(event.from_status) if event.from_status else None,
        to_status=BotStatus(event.to_status),
        reason=event.reason,
        actor=event.actor,
        correlation_id=event.correlation_id,
        slot_name=event.slot_name or None,
        coolify_service_uuid=event.coolify_uuid or None,
        epoch=event.epoch,
    )


class BotOfContainer(BotOut):
    config: dict[str, Any]
    released: bool = Field(description="The bot no longer holds this slot: leave.")
    should_leave: bool


class Stay(Outgoing):
    should_leave: bool = Field(description="The bot no longer holds its slot: leave.")


def _as_text(reason: Any) -> str | None:
    """JSON for what is not text; None if it says nothing or is nested too deeply."""
    if not reason or isinstance(reason, str):
        return reason or None
    try:
        return json.dumps(reason, ensure_ascii=False)
    except RecursionError:
        return None


def _storable(given: Any) -> str | None:
    reason = _as_text(given)
    return reason and CANNOT_BE_STORED.sub("", reason[: 4 * LONGEST_REASON]).strip()


def shown_reason(reason: str, *, bot: Bot | None, token: str) -> str:
    """Fit to be stored and shown. A bot may quote what it was given."""
    # Hidden before the cut: half a secret may not look like one.
    tokens = (token, token.rpartition(".")[2])
    known = without_known_secrets(reason, *tokens, bot=bot)
    text = masked_line(known)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


Reason = Annotated[str | None, BeforeValidator(_storable, json_schema_input_type=Any)]


def _as_status(given: Any) -> Any:
    return given.strip().upper() if isinstance(given, str) else given


# A refused bot would keep its slot: repair what can be repaired and ignore unknown fields.
class StatusReport(Incoming):
    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"status": "IN_CALL", "reason": "Let in by the host"}]},
    )

    status: Annotated[
        Literal["JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING", "DONE", "FAILED"],
        BeforeValidator(_as_status),
    ]
    reason: Reason = Field(
        None,
        description="Text; anything else is stored as its JSON. "
        f"Cut to {LONGEST_REASON} characters, and what looks like a secret is hidden. "
        "If omitted, `failureReason` is used.",
    )

    @model_validator(mode="before")
    @classmethod
    def _failure_reason_is_a_reason(cls, report: Any) -> Any:
        if isinstance(report, dict) and report.get("reason") is None:
            return {**report, "reason": report.get("failureReason")}
        return report
