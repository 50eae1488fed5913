"""BOT_DATA, the environment variable that tells a container which bot it runs.

It is base64 because Coolify writes raw JSON unquoted, cuts it at ` #` and expands `$`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

BOT_DATA = "BOT_DATA"


def encode_bot_data(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return base64.b64encode(text.encode()).decode("ascii")


def decode_bot_data(value: str) -> dict[str, Any]:
    """Raise ValueError for anything that is not base64 of a JSON object."""
    try:
        data = json.loads(base64.b64decode(value, validate=True))
    except ValueError as error:
        raise ValueError(f"{BOT_DATA} is not base64-encoded JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{BOT_DATA} contains a {type(data).__name__}, not an object")
    return data
