"""Hide the secrets in a bot's configuration before it is shown."""

import json
import re
from typing import Any

MASK = "••••••"
_SECRET = re.compile(
    r"secret|token|passw|passphrase|passcode|credential|api.?key|private|auth|cookie|\bpin\b",
    re.IGNORECASE,
)
# user:password@ in a URL
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")


def masked(value: Any) -> Any:
    """Return a copy with every value that looks like a secret hidden, at any depth."""
    if isinstance(value, dict):
        return {key: MASK if _SECRET.search(str(key)) else masked(v) for key, v in value.items()}
    if isinstance(value, list):
        return [masked(each) for each in value]
    if isinstance(value, str):
        return _IN_ADDRESS.sub(MASK, value)
    return value


def masked_text(config: Any) -> str:
    return json.dumps(masked(config), indent=2, ensure_ascii=False, sort_keys=True)
