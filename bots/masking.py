"""Hide the secrets in a bot's configuration before it is shown."""

import json
import re
from typing import Any

MASK = "••••••"
_SECRET = re.compile(
    r"secret|token|passw|passphrase|passcode|credential|api.?key|access.?key|private|auth|cookie"
    r"|bearer|session|signature",
    re.IGNORECASE,
)
# These also occur inside harmless words, such as "footprint".
_SECRET_WORDS = {"pin", "otp", "pwd", "jwt", "sig", "psk"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# user:password@ in a URL
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_PARAMETER = re.compile(r"(?<=[?&;#])([^=&;#\s]+)=([^&;#\s]+)")
_BEARER = re.compile(r"(?<=\bbearer )\s*\S+", re.IGNORECASE)
_JWT = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")


def masked(value: Any) -> Any:
    """Return a copy with every value that looks like a secret hidden, at any depth."""
    if isinstance(value, dict):
        return {key: MASK if _is_secret(str(key)) else masked(v) for key, v in value.items()}
    if isinstance(value, list):
        return [masked(each) for each in value]
    return _without_secrets(value) if isinstance(value, str) else value


def masked_text(config: Any) -> str:
    return json.dumps(masked(config), indent=2, ensure_ascii=False, sort_keys=True)


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    is_key = words[-1:] in (["key"], ["keys"])
    return is_key or bool(_SECRET.search(name)) or not _SECRET_WORDS.isdisjoint(words)


def _without_secrets(text: str) -> str:
    for pattern in (_IN_ADDRESS, _BEARER, _JWT):
        text = pattern.sub(MASK, text)
    return _PARAMETER.sub(_without_value, text)


def _without_value(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={MASK}" if _is_secret(name) else parameter[0]
