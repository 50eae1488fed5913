"""What Botpool can be asked for: each call once, for the sync and the async client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from botpool_client.parsing import parse
from botpool_client.requests import Call
from botpool_client.results import (
    Bot,
    BotEvent,
    BotLog,
    BotPage,
    EventPage,
    LogList,
    PlacedBot,
    Pool,
    Pressure,
    Queue,
    Server,
    ServerList,
    Slot,
    SlotList,
)

T = TypeVar("T")


def _as(kind: type[T]) -> Callable[[httpx.Response], T]:
    return lambda response: parse(kind, response.json())


def _given(**values: Any) -> dict[str, Any]:
    """Without those that are None: then Botpool's default holds."""
    return {name: value for name, value in values.items() if value is not None}


def _get(path: str, kind: type[T], **query: str | int | None) -> Call[T]:
    return Call(method="GET", path=path, read=_as(kind), query=_given(**query), repeatable=True)


# --- Bots ---------------------------------------------------------------------------------------


def create_bot(
    meeting_url: str,
    *,
    bot_display_name: str | None = None,
    platform: str | None = None,
    priority: int | None = None,
    queue_timeout_ms: int | None = None,
    config: Mapping[str, Any] | None = None,
    dedupe_key: str | None = None,
    webhook_url: str | None = None,
    idempotency_key: str | None = None,
    correlation_id: str | None = None,
) -> Call[PlacedBot]:
    """Request a bot. It gets a slot or a place in the queue; the answer does not wait for it.

    Each call has an idempotency key of its own, which its retries share: it makes one bot. Give
    your own key to make that hold over a restart of your program, too."""
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    body = _given(
        meetingUrl=meeting_url,
        botDisplayName=bot_display_name,
        platform=platform,
        priority=priority,
        queueTimeoutMs=queue_timeout_ms,
        config=config,
        dedupeKey=dedupe_key,
        webhookUrl=webhook_url,
    )
    if correlation_id:
        headers["X-Correlation-Id"] = correlation_id
    return Call(
        method="POST", path="/bots", read=_placed, body=body, headers=headers, repeatable=True
    )


def _placed(response: httpx.Response) -> PlacedBot:
    placed = parse(PlacedBot, response.json())
    return replace(
        placed,
        bot=replace(
            placed.bot,
            queue_position=placed.queue_position,
            estimated_wait_ms=placed.estimated_wait_ms,
        ),
        created=response.status_code == httpx.codes.CREATED,
        replayed=response.headers.get("Idempotency-Replayed") == "true",
    )


def get_bot(bot_id: int) -> Call[Bot]:
    return _get(f"/bots/{int(bot_id)}", Bot)


def cancel_bot(bot_id: int) -> Call[Bot]:
    """From any status. A bot that has ended is returned unchanged."""
    path = f"/bots/{int(bot_id)}/cancel"
    return Call(method="POST", path=path, read=_as(Bot), repeatable=True)


def list_bots(
    *,
    status: str | None = None,
    platform: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[BotPage]:
    """One page, newest first. `iter_bots` goes through all pages."""
    return _get("/bots", BotPage, status=status, platform=platform, limit=limit, cursor=cursor)


def list_bot_events(
    bot_id: int, *, limit: int | None = None, cursor: str | None = None
) -> Call[EventPage]:
    """One page, oldest first. `iter_bot_events` goes through all pages."""
    return _get(f"/bots/{int(bot_id)}/events", EventPage, limit=limit, cursor=cursor)


def list_bot_logs(bot_id: int) -> Call[tuple[BotLog, ...]]:
    """The logs that were kept of its failures, newest failure first."""
    return _then(_get(f"/bots/{int(bot_id)}/logs", LogList), lambda found: found.logs)


# --- Lists of several pages ---------------------------------------------------------------------


@dataclass(frozen=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next_cursor: str | None


@dataclass(frozen=True)
class Pages(Generic[T]):
    """`at` asks for the page at a cursor; the first one is at None."""

    at: Callable[[str | None], Call[Page[T]]]


def iter_bots(
    *, status: str | None = None, platform: str | None = None, page_size: int = 200
) -> Pages[Bot]:
    """All bots, newest first. Pages are fetched as you go; new bots do not shift them."""

    def at(cursor: str | None) -> Call[Page[Bot]]:
        call = list_bots(status=status, platform=platform, limit=page_size, cursor=cursor)
        return _then(call, lambda page: Page(page.bots, page.next_cursor))

    return Pages(at)


def iter_bot_events(bot_id: int, *, page_size: int = 200) -> Pages[BotEvent]:
    """All events of a bot, oldest first."""

    def at(cursor: str | None) -> Call[Page[BotEvent]]:
        call = list_bot_events(bot_id, limit=page_size, cursor=cursor)
        return _then(call, lambda page: Page(page.events, page.next_cursor))

    return Pages(at)


P = TypeVar("P")


def _then(call: Call[P], change: Callable[[P], T]) -> Call[T]:
    return Call(
        method=call.method,
        path=call.path,
        read=lambda response: change(call.read(response)),
        query=call.query,
        body=call.body,
        headers=call.headers,
        repeatable=call.repeatable,
    )


# --- The pool -----------------------------------------------------------------------------------


def get_pool() -> Call[Pool]:
    """Slots by platform and status, and how many bots wait."""
    return _get("/pool", Pool)


def get_pressure() -> Call[Pressure]:
    """Whether a bot would get a slot now, and how long it would wait."""
    return _get("/pool/pressure", Pressure)


def list_slots(*, status: str | None = None, platform: str | None = None) -> Call[tuple[Slot, ...]]:
    call = _get("/slots", SlotList, status=status, platform=platform)
    return _then(call, lambda found: found.slots)


def list_queue(*, platform: str | None = None, limit: int | None = None) -> Call[Queue]:
    """Who waits, the next one first."""
    return _get("/queue", Queue, platform=platform, limit=limit)


# --- For operators' keys ------------------------------------------------------------------------


def release_slot(slot_name: str, *, reason: str, bot_id: int | None = None) -> Call[Slot]:
    """The slot's bot fails. With `bot_id`, only if this bot holds the slot: then you can repeat the
    call after a lost answer, and it cannot hit the next bot."""
    return Call(
        method="POST",
        path=f"/slots/{quote(slot_name, safe='')}/release",
        read=_as(Slot),
        body=_given(reason=reason, botId=bot_id),
        # Not repeatable: the second answer would be 409, although the first call succeeded.
    )


def list_servers() -> Call[tuple[Server, ...]]:
    return _then(_get("/servers", ServerList), lambda found: found.servers)


def drain_server(server: str, *, reason: str, until: datetime | None = None) -> Call[Server]:
    """No new bots; slots leave as their meetings end. `server`: its name or uuid."""
    return _order(server, "drain", reason=reason, until=until)


def cordon_server(server: str, *, reason: str, until: datetime | None = None) -> Call[Server]:
    """No new bots; its slots stay."""
    return _order(server, "cordon", reason=reason, until=until)


def plan_maintenance(server: str, *, reason: str, begins: datetime, ends: datetime) -> Call[Server]:
    """The server drains by itself before, and returns after."""
    return _order(server, "maintenance", reason=reason, begins=begins, ends=ends)


def warm_image(server: str, *, reason: str, image: str) -> Call[Server]:
    """Pulls the image there before a bot needs it."""
    return _order(server, "warm", reason=reason, image=image)


def return_server(server: str, *, reason: str) -> Call[Server]:
    """Undoes orders and maintenance windows."""
    return _order(server, "return", reason=reason)


def _order(server: str, order: str, **fields: str | datetime | None) -> Call[Server]:
    # Not repeatable: another operator may have given a newer order meanwhile.
    return Call(
        method="POST",
        path=f"/servers/{quote(server, safe='')}/{order}",
        read=_as(Server),
        body={name: _as_text(value) for name, value in _given(**fields).items()},
    )


def _as_text(value: str | datetime) -> str:
    """Times need a zone: a naive one is taken for local time, as Python does."""
    return value.astimezone().isoformat() if isinstance(value, datetime) else value
