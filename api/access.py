"""Authentication: API keys for clients and operators, tokens for bots."""

from typing import Annotated

from django.http import HttpRequest
from ninja import Path
from ninja.security import HttpBearer

from api.keys import TooManyCalls, UnknownKey, use_api_key
from api.problems import Problem
from api.rates import note_rate
from bots.models import ApiKey
from slots.tokens import Assignment, read_bot_token

BotId = Annotated[int, Path(alias="id", ge=1)]


class ClientKey(HttpBearer):
    """Accepts an API key with any role."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiKey:
        try:
            key = use_api_key(token)
        except UnknownKey:
            raise unauthorized("The API key is unknown or revoked.") from None
        except TooManyCalls as refusal:
            note_rate(request, left=0)
            headers = {"Retry-After": str(refusal.retry_after)}
            raise Problem(429, f"{refusal}.", headers=headers) from None
        note_rate(request, left=key.seconds_left)
        return key


class OperatorKey(ClientKey):
    """Accepts an API key with the role `operator`."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiKey:
        key = super().authenticate(request, token)
        if key.role != ApiKey.Role.OPERATOR:
            raise Problem(403, "This call needs an API key with the role `operator`.")
        return key


class BotToken(HttpBearer):
    """Accepts the token from a container's BOT_DATA."""

    def authenticate(self, request: HttpRequest, token: str) -> Assignment:
        assignment = read_bot_token(token)
        if assignment is None:
            raise unauthorized("This call needs a valid bot token: `token` in BOT_DATA.")
        return assignment


def unauthorized(detail: str) -> Problem:
    return Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


def key_of(request: HttpRequest) -> ApiKey:
    key = request.auth  # type: ignore[attr-defined]
    assert isinstance(key, ApiKey)
    return key


def assignment_of(request: HttpRequest, *, bot_id: int | None = None) -> Assignment:
    """The calling bot's assignment. Raises 404 if `bot_id` is a different bot."""
    assignment = request.auth  # type: ignore[attr-defined]
    assert isinstance(assignment, Assignment)
    if bot_id not in (None, assignment.bot_id):
        raise no_such_bot(bot_id)
    return assignment


def no_such_bot(bot_id: int | None) -> Problem:
    return Problem(404, f"Bot {bot_id} does not exist.")
