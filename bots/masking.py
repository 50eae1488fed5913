"""Hide the secrets in a bot's configuration, or in a line of a log, before it is shown.

There is one rule for all of them. A value is hidden because of its name (`bots.secret_names`), or
because of its form, such as a key that begins with `ghp_`. Every pattern is bounded, so that no
text takes long, whatever it repeats.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from bots.secret_names import is_secret_name

MASK = "••••••"
# Configurations may have 20 levels, and JSON in their texts some more.
DEEPEST = 60


def masked(value: Any) -> Any:
    """Return a copy with every value that looks like a secret hidden, at any depth."""
    return _masked(value, depth=0)


def masked_line(line: str) -> str:
    """Hide what looks like a secret in a line of a log, rather too much than too little."""
    return _masked_string(line, depth=0)


def masked_text(config: Any) -> str:
    return json.dumps(masked(config), indent=2, ensure_ascii=False, sort_keys=True)


def secret_values(config: Any) -> Iterator[str]:
    """The texts and numbers that `masked` hides because of their names, at any depth."""
    yield from _secret_values(config, depth=0)


def host_of(address: str) -> str:
    """The scheme and host of an address: the rest may be a secret."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return MASK
    return f"{parts.scheme}://{parts.hostname}" if parts.hostname else MASK


# --- Lists, objects, and JSON in a text -----------------------------------------------------------

# {"name": "password", "value": …}
_NAMES = ("name", "key", "id", "field", "label", "header", "variable", "var", "k")
_VALUES = {"value", "values", "val", "v", "content", "data", "text", "default"}


def _masked(value: Any, *, depth: int) -> Any:
    if isinstance(value, str):
        return _masked_string(value, depth=depth)
    if not isinstance(value, dict | list):
        return value
    if depth == DEEPEST:
        return MASK
    hidden = _hidden_by_name(value)
    if isinstance(value, list):
        return [
            MASK if index in hidden else _masked(each, depth=depth + 1)
            for index, each in enumerate(value)
        ]
    return {
        _without_secrets(key): MASK if key in hidden else _masked(each, depth=depth + 1)
        for key, each in ((str(key), each) for key, each in value.items())
    }


def _masked_string(text: str, *, depth: int) -> str:
    inside = _parsed(text)
    if inside is not None:
        shown = _masked(inside, depth=depth + 1 if depth < DEEPEST else depth)
        if shown != inside:
            # In ASCII: an escaped character must not come to life.
            return json.dumps(shown).replace(_ESCAPED_MASK, MASK)
    return _without_secrets(text)


_ESCAPED_MASK = json.dumps(MASK)[1:-1]


def _secret_values(value: Any, *, depth: int) -> Iterator[str]:
    inside = _parsed(value) if isinstance(value, str) else value
    if not isinstance(inside, dict | list) or depth == DEEPEST:
        return
    hidden = _hidden_by_name(inside)
    for key, each in inside.items() if isinstance(inside, dict) else enumerate(inside):
        yield from _leaves(each) if key in hidden else _secret_values(each, depth=depth + 1)


def _parsed(text: str) -> Any:
    """The object or list that this text is in JSON, or None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _hidden_by_name(value: dict[str, Any] | list[Any]) -> set[Any]:
    """The keys, or places in a list, whose values have the name of a secret."""
    if isinstance(value, list):
        return {place + 1 for place in range(len(value)) if _names_the_next(value, place)}
    hidden = {key for key in value if is_secret_name(str(key))}
    given = (value.get(name) for name in _NAMES)
    if any(isinstance(name, str) and is_secret_name(name) for name in given):
        hidden |= _VALUES & value.keys()
    return hidden


def _names_the_next(values: list[Any], place: int) -> bool:
    """["--password", …] and ["password", …]"""
    name = values[place]
    if not isinstance(name, str) or not (name.startswith("-") or len(values) == 2):
        return False
    return bool(_ONLY_NAME.fullmatch(name)) and is_secret_name(name)


_ONLY_NAME = re.compile(r"[\w.-]{1,64}")


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


# --- Texts ----------------------------------------------------------------------------------------


def _without_secrets(text: str, *, is_decoded: bool = False) -> str:
    for pattern, shown in _FORMS:
        text = pattern.sub(shown, text)
    text = _AFTER_SCHEME.sub(_without_credentials, text)
    text = _PARAMETER.sub(_without_decoded if is_decoded else _without_parameter, text)
    text = _FLAG.sub(_without_named, _ELEMENT.sub(_without_named, text))
    return _without_named_values(text)


_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
            r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        MASK,
    ),
    # JSON Web Tokens, and BOT_DATA: base64 of a JSON object, which begins with `{"`.
    (re.compile(r"(?<![A-Za-z0-9])eyJ[\w+/=.-]{6,}"), MASK),
    # Tokens of bots, Botpool's API keys, secrets that sign webhooks, and Coolify's tokens.
    (re.compile(r"\bb\d{1,20}\.s\d{1,20}\.e\d{1,20}\.[\w-]+"), MASK),
    (re.compile(r"\b(?:bp_|whsec_)[\w+/=-]{8,}|\b\d{1,10}\|[A-Za-z0-9]{16,}"), MASK),
    # Keys of other services.
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|hf_|shpat_|dop_v1_"
            r"|AIza|ya29\.|SG\.|[sr]k[-_](?=[\w-]{0,64}\d))[\w.-]{8,}"
            r"|\bAKIA[A-Z0-9]{12,}|\b\d{6,12}:[\w-]{30,}"
        ),
        MASK,
    ),
    # The path is the secret of addresses such as https://hooks.slack.com/services/….
    (
        re.compile(r"(://[\w.:-]{0,200}?hooks?[\w.:-]{0,200}/)[^\s\"'<>]+", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (
        re.compile(r"(://[^\s\"'<>?#]{0,200}?/(?:web)?hooks?\w{0,8}/)[^\s\"'<>?#]+", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    # user:password@ in an address, also with signs in the password that should be escaped.
    (re.compile(r"(?<=://)(?!\[)[^\s/?#\"'<>]{1,512}@"), f"{MASK}@"),
    (
        re.compile(
            r"(?<![\w:/@.%+-])(?!(?:mailto|sips?|xmpp|acct|e?mail|to|from|cc|contact):)"
            r"[\w.%+-]{1,64}:(?!//)[^\s/@:\"'<>]{1,128}@(?=[\w-])",
            re.IGNORECASE,
        ),
        f"{MASK}@",
    ),
    (
        re.compile(
            r"\b((?:proxy-)?authorization|(?:set-)?cookie)([\s\"'\\]{0,4}[:=][\s\"'\\]{0,4})\S.*",
            re.IGNORECASE,
        ),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"\b(bearer\s{1,4})\S+", re.IGNORECASE), rf"\1{MASK}"),
    # Not a plain word, as in "basic recording".
    (
        re.compile(
            r"\b((?i:basic|token)\s{1,4})(?!(?:[A-Z]?[a-z]{1,64}|[A-Z]{1,64})\b)[\w+/=.~-]{6,}"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?<!\S)(-u|--user)(\s{1,4}|=)[^\s:]{1,64}:\S+"), rf"\1\2{MASK}"),
)

# scheme://user:password@host with a slash in the password, but not https://host:443/@name.
_AFTER_SCHEME = re.compile(
    r"\b([a-z][a-z0-9+.-]{1,20}://)([^\s/@:?#\[\"'<>]{0,64}:[^\s\"'<>]{1,512})@", re.IGNORECASE
)
_WITH_PORT = re.compile(r"[^:]*:\d{1,5}[/?#]")


def _without_credentials(found: re.Match[str]) -> str:
    is_page = found[1].lower().startswith(("http:", "https:"))
    if is_page and _WITH_PORT.match(found[2]):
        return found[0]
    return f"{found[1]}{MASK}@"


_PARAMETER = re.compile(r"(?<=[?&#])([^=&#?\s]{1,200})=([^&#\s\"'<>]+)")


def _without_parameter(found: re.Match[str]) -> str:
    name, value = _decoded(found[1]), _decoded(found[2])
    is_address = value != found[2] and _without_secrets(value, is_decoded=True) != value
    return f"{found[1]}={MASK}" if is_address or _is_parameter(name, value) else found[0]


def _without_decoded(found: re.Match[str]) -> str:
    return f"{found[1]}={MASK}" if _is_parameter(found[1], found[2]) else found[0]


def _is_parameter(name: str, value: str) -> bool:
    """`p` is the passcode in an address of Teams, and elsewhere the number of a page."""
    return is_secret_name(name) or (name == "p" and len(value) >= 6)


def _decoded(text: str) -> str:
    for _ in range(3):
        text = unquote_plus(text)
    return text


_VALUE = r"""\\+"[^"]*"?|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|-?\d[\d.]*(?=[,}\]\s]|$)|\S+"""
_FLAG = re.compile(rf"(?<!\S)(?P<name>--?[\w.-]{{2,64}})(?P<between>\s{{1,4}})(?!-)(?:{_VALUE})")
_ELEMENT = re.compile(r"<(?P<name>[\w:.-]{1,64})(?P<between>(?:\s[^<>]{0,200})?>)[^<]+")


def _without_named(found: re.Match[str]) -> str:
    if not is_secret_name(found["name"]):
        return found[0]
    before = found.start("between") - found.start()
    return f"{found[0][:before]}{found['between']}{MASK}"


# Not in an address: _PARAMETER knows where its values end.
_NAME = re.compile(
    r"(?<![\w.?&#-])((?:pass|pin|mfa|access|security|one[ -]time) (?:code|word|phrase|number)"
    r"|[\w.-]{2,64})"
    r"""\\{0,4}["']?\s{0,2}(?:[=:]>?|:=)\s{0,2}"""
)
_VALUE_BEHIND = re.compile(_VALUE)


def _without_named_values(text: str) -> str:
    """Hide the values of name=value and name: value. A value may be such a pair itself."""
    shown, done = [], 0
    for found in _NAME.finditer(text):
        if found.start() < done or not is_secret_name(found[1]):
            continue
        value = _VALUE_BEHIND.match(text, found.end())
        if value:
            shown += [text[done : found.end()], MASK]
            done = value.end()
    return "".join([*shown, text[done:]])
