"""Hide the secrets that a bot was given, wherever they stand."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from urllib.parse import quote

from bots.masking import MASK, secret_values
from bots.meetings import secrets_in_address
from bots.models import Bot

# A shorter value may be an ordinary word or number.
SHORTEST_SECRET = 4
# Each is looked for in the whole text: thousands in one configuration would only cost time.
MOST_SECRETS = 1_000


def without_known_secrets(text: str, *others: str | None, bot: Bot | None) -> str:
    """Hide those of the bot's configuration and of its meeting's address, and `others`."""
    known = set(_written((*others, *(_given_to(bot) if bot else ()))))
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _given_to(bot: Bot) -> Iterator[str]:
    yield from secrets_in_address(bot.meeting_url)
    yield from islice(secret_values(bot.config), MOST_SECRETS)


def _written(secrets: Iterable[str | None]) -> Iterator[str]:
    for secret in secrets:
        if secret and len(secret) >= SHORTEST_SECRET:
            yield from (secret, quote(secret, safe=""))
            yield from (
                json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)
            )
