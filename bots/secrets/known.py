"""Hide the secrets that a bot's configuration is known to contain, wherever they stand."""

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from bots.masking import MASK, secret_values

# A shorter value may be an ordinary word or number.
SHORTEST_SECRET = 4


def without_known_secrets(text: str, config: Any, *others: str | None) -> str:
    """`others` are secrets that are not in the configuration."""
    known = set(_written((*others, *secret_values(config))))
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
