"""A client's request for a bot: asked twice under one name, it gives one bot."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from bots.models import ApiKey, Bot, RequestName, Webhook
from core.sql import fetch_one
from pool.request import BotRequest, request_bot

# The unique index makes the second of two requests wait for the first to commit. The row is
# written anew, unchanged, because only so it comes back, and locked at that.
_TAKE_NAME = """
INSERT INTO bots_requestname (api_key_id, kind, name, body_hash)
VALUES (%(api_key)s, %(kind)s, %(name)s, %(body_hash)s)
ON CONFLICT (api_key_id, kind, name) DO UPDATE SET name = excluded.name
RETURNING bot_id, body_hash
"""


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


class NameOfAnotherRequest(Exception):
    """The idempotency key was used before, for a request with another body."""


def ask_for_bot(request: ClientRequest) -> Answer:
    """The bot of this request: a new one, or the one that it was answered with before."""
    with _transaction_if_needed(request):
        earlier = _answer_to_same_request(request)
        if earlier is not None:
            return Answer(bot=earlier)
        live = _live_bot_with_same_dedupe_key(request)
        bot = live or _make(request)
        _remember(request, bot)
    return Answer(bot=bot, is_another_live_one=live is not None)


def _transaction_if_needed(request: ClientRequest) -> AbstractContextManager[Any]:
    """The request alone has its own transaction; a second around it would cost round trips."""
    alone = not (request.idempotency_key or request.dedupe_key or _webhook_url(request))
    return nullcontext() if alone else transaction.atomic()


def _answer_to_same_request(request: ClientRequest) -> Bot | None:
    if not request.idempotency_key:
        return None
    bot_id, body_hash = _take_name(
        request, kind=RequestName.Kind.IDEMPOTENCY, name=request.idempotency_key
    )
    if body_hash != request.body_hash:
        raise NameOfAnotherRequest
    return Bot.objects.filter(pk=bot_id).first() if bot_id else None


def _live_bot_with_same_dedupe_key(request: ClientRequest) -> Bot | None:
    if not request.dedupe_key:
        return None
    bot_id, _ = _take_name(request, kind=RequestName.Kind.DEDUPE, name=request.dedupe_key)
    bot = Bot.objects.filter(pk=bot_id).first() if bot_id else None
    return None if bot is None or bot.is_terminal else bot


def _take_name(
    request: ClientRequest, *, kind: RequestName.Kind, name: str
) -> tuple[int | None, str]:
    """Wait for others who ask under this name; the bot that they were answered with."""
    parameters = {
        "api_key": request.key.pk,
        "kind": kind.value,
        "name": name,
        "body_hash": request.body_hash,
    }
    row = fetch_one(_TAKE_NAME, parameters)
    assert row is not None
    bot_id, body_hash = row
    return bot_id, body_hash


def _make(request: ClientRequest) -> Bot:
    bot = request_bot(request.bot, actor=f"key:{request.key.name}")
    url = _webhook_url(request)
    if url:
        Webhook.objects.create(bot=bot, api_key=request.key, url=url)
    return bot


def _webhook_url(request: ClientRequest) -> str:
    return request.webhook_url or request.key.webhook_url


def _remember(request: ClientRequest, bot: Bot) -> None:
    names = {
        RequestName.Kind.IDEMPOTENCY: request.idempotency_key,
        RequestName.Kind.DEDUPE: request.dedupe_key,
    }
    for kind, name in names.items():
        if name:
            RequestName.objects.filter(api_key=request.key, kind=kind, name=name).update(bot=bot)
