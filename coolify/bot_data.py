"""BOT_DATA, the one environment variable that tells a container which bot it is.

Base64, because Coolify writes raw JSON unquoted: it is then cut at ` #` and `$` is expanded.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

BOT_DATA = "BOT_DATA"


def encode_bot_data(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return base64.b64encode(text.encode()).decode("ascii")


def decode_bot_data(value: str) -> dict[str, Any]:
    """Raises ValueError for anything that is not base64 of a JSON object."""
    try:
        data = json.loads(base64.b64decode(value, validate=True))
    except (binascii.Error, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{BOT_DATA} is not base64 of JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{BOT_DATA} holds a {type(data).__name__}, not an object")
    return data
