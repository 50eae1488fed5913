"""Hide the secrets in a bot's configuration, or in a line of a log, before it is shown."""

import json
import re
from collections.abc import Iterator
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
_PARAMETER = re.compile(r"(?<=[?&;#])([^=&;#?\s]{1,200})=([^&;#\s]+)")
_BEARER = re.compile(r"(?<=\bbearer )\s*\S+", re.IGNORECASE)
_JWT = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")

# In a line of a log. BOT_DATA is base64 of a JSON object, which begins with `{"`.
_ENCODED_OBJECT = re.compile(r"(?<![\w+/])eyJ[\w+/=.-]{6,}")
_BOT_TOKEN = re.compile(r"\bb\d+\.s\d+\.e\d+\.[\w-]+")
# Botpool's API keys, secrets that sign webhooks, and Coolify's tokens.
_KEY = re.compile(r"\b(?:bp_|whsec_)[\w+/=-]{8,}|\b\d{1,10}\|[A-Za-z0-9]{16,}")
_HEADER = re.compile(r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\W{1,6})\S.*", re.IGNORECASE)
_NAMED = re.compile(
    r"""(?<![\w.-])([\w.-]{2,64})(\\?["']?\s{0,2}[=:]\s{0,2})(\\?"[^"]*"?|'[^']*'?|[^\s"',;&]+)"""
)


def masked(value: Any) -> Any:
    """Return a copy with every value that looks like a secret hidden, at any depth."""
    if isinstance(value, dict):
        return {key: MASK if _is_secret(str(key)) else masked(v) for key, v in value.items()}
    if isinstance(value, list):
        return [masked(each) for each in value]
    return _without_secrets(value) if isinstance(value, str) else value


def masked_line(line: str) -> str:
    """Hide what looks like a secret in a line of a log, rather too much than too little."""
    for pattern in (_ENCODED_OBJECT, _BOT_TOKEN, _KEY):
        line = pattern.sub(MASK, line)
    line = _HEADER.sub(rf"\1\2{MASK}", line)
    return _NAMED.sub(_without_named_value, _without_secrets(line))


def secret_values(config: Any) -> Iterator[str]:
    """The texts and numbers that `masked` hides because of their names, at any depth."""
    if isinstance(config, dict):
        for key, value in config.items():
            yield from _leaves(value) if _is_secret(str(key)) else secret_values(value)
    elif isinstance(config, list):
        for each in config:
            yield from secret_values(each)


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


def _without_named_value(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}" if _is_secret(found[1]) else found[0]


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
