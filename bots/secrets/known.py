"""Hide the secrets that a bot was given, wherever they stand."""

import json
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from bots.masking import MASK, secret_values
from bots.meetings import secrets_in_address
from bots.models import Bot

# A shorter value may be an ordinary word or number.
SHORTEST_SECRET = 4


def without_known_secrets(text: str, *others: str | None, bot: Bot | None) -> str:
    """Hide those of the bot's configuration and of its meeting's address, and `others`."""
    of_bot = (*secret_values(bot.config), *secrets_in_address(bot.meeting_url)) if bot else ()
    known = set(_written((*others, *of_bot)))
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _written(secrets: Iterable[str | None]) -> Iterator[str]:
    for secret in secrets:
        if secret and len(secret) >= SHORTEST_SECRET:
            yield from (secret, quote(secret, safe=""))
            yield from (
                json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)
            )
