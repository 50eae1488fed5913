"""Idempotency keys and dedupe keys: a repeated request gets the same bot."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from api.webhooks.endpoints import subscribe
from bots.models import ApiKey, Bot, RequestName
from pool.request import BotRequest, request_bot


@dataclass(frozen=True, kw_only=True)
class ClientRequest:
    bot: BotRequest
    key: ApiKey
    body_hash: str = ""
    idempotency_key: str = ""
    dedupe_key: str = ""
    webhook_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    bot: Bot
    is_another_live_one: bool = False  # found by the dedupe key
    is_replayed: bool = False  # found by the idempotency key


class NameOfAnotherRequest(Exception):
    """The idempotency key was already used for a request with a different body."""


def ask_for_bot(request: ClientRequest) -> Answer:
    """Request a bot, or return the one that an earlier request with the same key got."""
    with _transaction_if_needed(request):
        earlier = _answer_to_same_request(request)
        if earlier is not None:
            return earlier
        live = _live_bot_with_same_dedupe_key(request)
        bot = live or _make(request)
        _remember(request, bot)
    return Answer(bot=bot, is_another_live_one=live is not None)


def _transaction_if_needed(request: ClientRequest) -> AbstractContextManager[Any]:
    """request_bot opens its own transaction; one around it would cost extra round trips."""
    only_the_bot = not (request.idempotency_key or request.dedupe_key or _has_webhooks(request))
    return nullcontext() if only_the_bot else transaction.atomic()


def _answer_to_same_request(request: ClientRequest) -> Answer | None:
    if not request.idempotency_key:
        return None
    name = _take_name(request, kind=RequestName.Kind.IDEMPOTENCY, name=request.idempotency_key)
    if name.body_hash != request.body_hash:
        raise NameOfAnotherRequest
    if name.bot is None:
        return None
    # A bot that is older than the name was found by its dedupe key, then as now.
    was_found = name.bot.created_at < name.created_at
    return Answer(bot=name.bot, is_another_live_one=was_found, is_replayed=True)


def _live_bot_with_same_dedupe_key(request: ClientRequest) -> Bot | None:
    if not request.dedupe_key:
        return None
    bot = _take_name(request, kind=RequestName.Kind.DEDUPE, name=request.dedupe_key).bot
    return None if bot is None or bot.is_terminal else bot


def _take_name(request: ClientRequest, *, kind: RequestName.Kind, name: str) -> RequestName:
    """Lock the name, waiting for concurrent requests. It has a bot if it was used before."""
    # The unique index makes the second of two requests wait for the first to commit.
    taken, _ = RequestName.objects.select_for_update().get_or_create(
        api_key=request.key, kind=kind, name=name, defaults={"body_hash": request.body_hash}
    )
    return taken


def _make(request: ClientRequest) -> Bot:
    bot = request_bot(request.bot, actor=f"key:{request.key.name}")
    if _has_webhooks(request):
        subscribe(bot, request.key, url=request.webhook_url)
    return bot


def _has_webhooks(request: ClientRequest) -> bool:
    return bool(request.webhook_url) or request.key.has_endpoints


def _remember(request: ClientRequest, bot: Bot) -> None:
    names = {
        RequestName.Kind.IDEMPOTENCY: request.idempotency_key,
        RequestName.Kind.DEDUPE: request.dedupe_key,
    }
    for kind, name in names.items():
        if name:
            RequestName.objects.filter(api_key=request.key, kind=kind, name=name).update(bot=bot)
