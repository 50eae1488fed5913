"""What clients do with bots: request, follow and cancel them."""

import hashlib
import json
from datetime import timedelta
from typing import Annotated

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Header, Query, Router, Status
from pydantic import BaseModel, Field

from api.access import BotId, ClientKey, key_of, no_such_bot
from api.idempotency import ClientRequest, NameOfAnotherRequest, ask_for_bot
from api.positions import find_place, queue_fields
from api.problems import Problem, over_quota, wrong_fields
from api.schemas.bots import (
    BotInDetail,
    BotOut,
    BotPage,
    EventPage,
    NewBot,
    PlacedBot,
    bot_fields,
    event_out,
)
from api.schemas.cursors import Cursor, page_of, read_cursor
from api.schemas.logs import LogList, log_out
from api.schemas.parameters import refuse_unknown_parameters
from api.schemas.words import explained
from api.visibility import visible_bots
from bots.meetings import WrongAddress, platform_of
from bots.models import ApiKey, Bot
from bots.moves import Outcome
from bots.status import BotStatus, Platform
from core.correlation import current_correlation_id
from pool.lifecycle import end_bot
from pool.request import BotRequest
from pool.sharing.quota import OverQuota
from pool.waiting.waiting_for import waiting_for, waiting_for_each
from slots.logs import KeptLog

MOST_LOGS = 12  # a bot is placed a few times, and each start has two

router = Router(tags=["Bots"], auth=ClientKey(), by_alias=True)
router.add_decorator(refuse_unknown_parameters)

Limit = Annotated[int, Field(ge=1, le=200)]
IdempotencyKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=255,
        pattern=explained(
            r"^[\x21-\x7e]+$", "Must have printable ASCII characters only, without spaces."
        ),
    ),
]


@router.post(
    "",
    response={200: PlacedBot, 201: PlacedBot},
    exclude_unset=True,
    summary="Request a bot",
    operation_id="createBot",
)
def create_bot(
    request: HttpRequest,
    response: HttpResponse,
    new: NewBot,
    idempotency_key: Annotated[IdempotencyKey | None, Header(alias="Idempotency-Key")] = None,
) -> Status[PlacedBot]:
    """The bot gets a slot or joins the queue. The response does not wait for its container.

    If you repeat a request with the same `Idempotency-Key` header and body, you get the same bot
    in its current state, with the same status code and the header `Idempotency-Replayed: true`.
    The same key with a different body is refused with 409."""
    try:
        answer = ask_for_bot(_client_request(request, new, idempotency_key=idempotency_key or ""))
    except NameOfAnotherRequest:
        raise Problem(
            409, "This Idempotency-Key was already used for a request with a different body."
        ) from None
    except OverQuota as refusal:
        raise over_quota(str(refusal)) from None
    bot = answer.bot
    response["Location"] = f"/api/v1/bots/{bot.pk}"
    if answer.is_replayed:
        response["Idempotency-Replayed"] = "true"
    place = find_place(bot)  # first: it rereads a bot that has left the queue
    fields = bot_fields(bot, waiting_for(bot, place=place))
    body = PlacedBot(bot=BotOut(**fields), **queue_fields(place))
    return Status(200 if answer.is_another_live_one else 201, body)


def _client_request(request: HttpRequest, new: NewBot, *, idempotency_key: str) -> ClientRequest:
    return ClientRequest(
        bot=_bot_request(new, key_of(request)),
        key=key_of(request),
        body_hash=_hash_of(new) if idempotency_key else "",
        idempotency_key=idempotency_key,
        dedupe_key=new.dedupe_key or "",
        webhook_url=new.webhook_url or "",
    )


def _bot_request(new: NewBot, key: ApiKey) -> BotRequest:
    try:
        platform = platform_of(new.meeting_url, given=new.platform)
    except WrongAddress as error:
        raise wrong_fields({"meetingUrl": [str(error)]}) from None
    return BotRequest(
        meeting_url=new.meeting_url,
        platform=platform.value,
        display_name=new.bot_display_name,
        priority=new.priority,
        queue_timeout=_queue_timeout(new),
        config=new.config,
        correlation_id=current_correlation_id() or None,
        client_id=key.client_id,
        is_limited=key.is_limited,
    )


def _queue_timeout(new: NewBot) -> timedelta:
    default: timedelta = settings.DEFAULT_QUEUE_TIMEOUT
    given = new.queue_timeout_ms
    return default if given is None else timedelta(milliseconds=given)


def _hash_of(new: NewBot) -> str:
    """Hash the parsed request: field order and white space make no difference."""
    fields = new.model_dump(mode="json", exclude_unset=True)
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class BotFilter(BaseModel):
    status: BotStatus | None = None
    platform: Platform | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@router.get("", response=BotPage, summary="List bots, newest first", operation_id="listBots")
def list_bots(request: HttpRequest, filters: Query[BotFilter]) -> BotPage:
    bots = visible_bots(request).order_by("-id")
    if filters.status:
        bots = bots.filter(status=filters.status)
    if filters.platform:
        bots = bots.filter(platform=filters.platform)
    if filters.cursor:
        bots = bots.filter(pk__lt=read_cursor(filters.cursor))
    shown, next_cursor = page_of(bots.defer("config"), limit=filters.limit)
    waiting = waiting_for_each(shown)
    return BotPage(
        bots=[BotOut(**bot_fields(bot, waiting.get(bot.pk))) for bot in shown],
        next_cursor=next_cursor,
    )


@router.get(
    "/{int:id}",
    response=BotInDetail,
    exclude_unset=True,
    summary="Get a bot",
    operation_id="getBot",
)
def get_bot(request: HttpRequest, bot_id: BotId) -> BotInDetail:
    bot = _find(request, bot_id)
    place = find_place(bot)  # first: it rereads a bot that has left the queue
    return BotInDetail(**bot_fields(bot, waiting_for(bot, place=place)), **queue_fields(place))


@router.get(
    "/{int:id}/events",
    response=EventPage,
    summary="List a bot's events, oldest first",
    operation_id="listBotEvents",
)
def list_events(
    request: HttpRequest, bot_id: BotId, limit: Limit = 200, cursor: Cursor | None = None
) -> EventPage:
    events = _find(request, bot_id).events.order_by("id")
    if cursor:
        events = events.filter(pk__gt=read_cursor(cursor))
    shown, next_cursor = page_of(events, limit=limit)
    return EventPage(events=[event_out(event) for event in shown], next_cursor=next_cursor)


@router.get(
    "/{int:id}/logs",
    response=LogList,
    summary="Get the logs that were kept of a bot's failures",
    operation_id="listBotLogs",
)
def list_logs(request: HttpRequest, bot_id: BotId) -> LogList:
    """When a bot or one of its starts fails, the last lines of its container's log and of Coolify's
    deployment log are kept for some days. Newest failure first."""
    logs = KeptLog.objects.filter(bot=_find(request, bot_id)).order_by("-epoch", "source")
    return LogList(logs=[log_out(log) for log in logs[:MOST_LOGS]])


@router.post("/{int:id}/cancel", response=BotOut, summary="Cancel a bot", operation_id="cancelBot")
def cancel_bot(request: HttpRequest, bot_id: BotId) -> BotOut:
    """Removes the bot from the queue, or releases its slot. A bot that has already ended is
    returned unchanged, without an error. The call needs no body and does not read one."""
    bot = _find(request, bot_id)
    key = key_of(request)
    is_foreign = key.role == ApiKey.Role.OPERATOR and key.client_id != bot.client_id
    reason = f"Cancelled by {'an operator' if is_foreign else 'the client'}"
    end_bot(bot, Outcome(BotStatus.CANCELLED, reason, f"key:{key.name}"))
    bot.refresh_from_db()
    return BotOut(**bot_fields(bot, waiting_for(bot)))


def _find(request: HttpRequest, bot_id: int) -> Bot:
    """404 also for bots of other clients: their ids tell nothing."""
    bot = visible_bots(request).filter(pk=bot_id).defer("config").first()
    if bot is None:
        raise no_such_bot(bot_id)
    return bot
