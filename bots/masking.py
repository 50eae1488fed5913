"""Hide the secrets in a bot's configuration, or in a line of a log, before it is shown.

There is one rule for all of them. A value is hidden because of its name (`bots.secrets.names`), or
because of its form (`bots.secrets.forms`), such as a key that begins with `ghp_`. Every pattern is
bounded, so that no text takes long, whatever it repeats.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from bots.secrets.ends import end_of_nested, is_nested
from bots.secrets.forms import FORMS, MASK, PRIVATE_KEY
from bots.secrets.names import is_secret_name
from bots.secrets.prose import without_secrets_in_prose, without_secrets_in_tags

__all__ = [
    "MASK",
    "host_of",
    "masked",
    "masked_line",
    "masked_text",
    "secret_values",
    "without_private_keys",
]

# Configurations may have 20 levels, and JSON in their texts some more.
DEEPEST = 60


def masked(value: Any) -> Any:
    """Return a copy with every value that looks like a secret hidden, at any depth."""
    return _masked(value, depth=0)


def masked_line(line: str) -> str:
    """Hide what looks like a secret in a line of a log, rather too much than too little."""
    return _masked_string(line, depth=0)


def without_private_keys(text: str) -> str:
    """For a text that is masked line by line: a private key has many."""
    return PRIVATE_KEY.sub(MASK, text)


def masked_text(config: Any) -> str:
    return json.dumps(masked(config), indent=2, ensure_ascii=False, sort_keys=True)


def secret_values(config: Any) -> Iterator[str]:
    """The texts and numbers that `masked` hides, at any depth."""
    yield from _secret_values(config, depth=0)


def host_of(address: str) -> str:
    """The scheme and host of an address: the rest may be a secret."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return MASK
    return f"{parts.scheme}://{parts.hostname}" if parts.hostname else MASK


# --- Lists, objects, and JSON in a text -----------------------------------------------------------

# {"name": "password", "value": …}, in any case
_NAMES = {
    "name", "key", "id", "type", "field", "label", "header", "variable", "var", "k",
    "property", "attribute", "parameter", "param", "title",
}  # fmt: skip
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
        return _without_secrets(text) if shown == inside else _as_json(shown)
    return _without_secrets(_with_masked_json(text, depth=depth))


def _as_json(shown: Any) -> str:
    """In ASCII: an escaped character must not come to life."""
    return json.dumps(shown).replace(_ESCAPED_MASK, MASK)


_ESCAPED_MASK = json.dumps(MASK)[1:-1]

_DECODER = json.JSONDecoder()
_JSON = re.compile(r'\{\s{0,20}"|\[\s{0,20}["\[{]')
MOST_FAILURES = 50  # each may read the whole text


def _with_masked_json(text: str, *, depth: int) -> str:
    """Mask what is JSON inside of a text."""
    pieces, done, failures = [], 0, 0
    for found in _JSON.finditer(text):
        if found.start() < done or failures == MOST_FAILURES or depth == DEEPEST:
            continue
        try:
            inside, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            failures += 1
            continue
        shown = _masked(inside, depth=depth + 1)
        changed = text[found.start() : end] if shown == inside else _as_json(shown)
        pieces += [text[done : found.start()], changed]
        done = end
    return "".join([*pieces, text[done:]])


def _secret_values(value: Any, *, depth: int) -> Iterator[str]:
    inside = _parsed(value) if isinstance(value, str) else value
    if isinstance(value, str) and inside is None:
        yield from _hidden_parts(value)
    if not isinstance(inside, dict | list) or depth == DEEPEST:
        return
    hidden = _hidden_by_name(inside)
    for key, each in inside.items() if isinstance(inside, dict) else enumerate(inside):
        if key in hidden:
            yield from _leaves(each)
        yield from _secret_values(each, depth=depth + 1)


def _hidden_parts(text: str) -> Iterator[str]:
    """What is hidden in a text because of its form: of "Bearer …" what follows, of
    postgres://user:password@host both and the password alone."""
    shown = _without_secrets(text)
    first, *others = shown.split(MASK)
    start = len(first)
    for number, piece in enumerate(others, start=1):
        is_last = number == len(others)
        end = len(text) - len(piece) if is_last else text.find(piece, start + 1)
        if piece or is_last:
            if not start < end:
                return  # it was rewritten
            part = text[start:end]
            yield from filter(None, (part, part.partition(":")[2]))
            start = end + len(piece)


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
    given = (each for key, each in value.items() if str(key).lower() in _NAMES)
    if any(isinstance(name, str) and is_secret_name(name) for name in given):
        hidden |= {key for key in value if str(key).lower() in _VALUES}
    return hidden


def _names_the_next(values: list[Any], place: int) -> bool:
    """["--password", …] and ["password", …]; in longer lists if the next is no ordinary word."""
    name = values[place]
    if not isinstance(name, str) or not _ONLY_NAME.fullmatch(name) or not is_secret_name(name):
        return False
    is_sure = name.startswith("-") or len(values) == 2 or name.lower() in _HEADERS
    return is_sure or _is_value(values[place + 1 : place + 2])


_HEADERS = {"authorization", "proxy-authorization", "cookie", "set-cookie"}


def _is_value(following: list[Any]) -> bool:
    return any(
        not isinstance(each, str) or not _WORDS.fullmatch(each)
        for each in following
        if each is not None and not isinstance(each, bool)
    )


_WORDS = re.compile(r"[^\W\d_]{0,40}")
_ONLY_NAME = re.compile(r"[\w.-]{1,64}")


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


# --- Texts ----------------------------------------------------------------------------------------


def _without_secrets(text: str, *, is_decoded: bool = False) -> str:
    for pattern, shown in FORMS:
        text = pattern.sub(shown, text)
    text = _AFTER_SCHEME.sub(_without_credentials, text)
    text = _PARAMETER.sub(_without_decoded if is_decoded else _without_parameter, text)
    text = without_secrets_in_tags(text, names=_NAMES, values=_VALUES)
    for names, value in ((_ELEMENT, _CONTENT), (_FLAG, _ARGUMENT), (_NAME, _VALUE)):
        text = _without_values(text, names, value)
    return without_secrets_in_prose(text)


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
    """`p` is the passcode in an address of Teams, and elsewhere the number of a page. `code` is
    what a login hands on."""
    return is_secret_name(name) or name == "code" or (name == "p" and len(value) >= 6)


def _decoded(text: str) -> str:
    for _ in range(3):
        text = unquote_plus(text)
    return text


# --- Names and values in a text -------------------------------------------------------------------
#
# Each pattern of names ends where the value begins.

_QUOTED = (
    r"""\"{3}(?s:.*?)(?:\"{3}|\Z)|'{3}(?s:.*?)(?:'{3}|\Z)"""
    r"""|\\+"[^"]*"?|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?"""
)
_PLAIN = r"(?:-?\d[\d.]*(?=[,}\]\s]|$)|\S+)"

# <password>…
_ELEMENT = re.compile(r"<([\w:.-]{1,64})(?:\s[^<>]{0,200})?>")
_CONTENT = re.compile(r"\s{0,20}<!\[CDATA\[(?s:.*?)(?:\]\]>|\Z)|[^<]+")

# --password …
_FLAG = re.compile(r"(?<!\S)(--?[\w.-]{2,64})\s{1,4}(?!-)")
_ARGUMENT = re.compile(f"{_QUOTED}|{_PLAIN}")

# password=… and password: …, also with an escaped sign before or behind the name: %3Fpassword%3D…,
# and as a subscript: config['password'] = …, passwords[0]=….
# Not in an address: _PARAMETER knows where its values end.
_NAME = re.compile(
    r"(?:(?<=3[FfBb])|(?<=2[36])|(?<![\w.?&#-])(?!(?<=%)[\dA-Fa-f]{2}))"
    r"((?:pass|pin|mfa|access|security|one[ -]time) (?:code|word|phrase|number|answer)"
    r"|(?:[\w.\u0300-\u036f-]|\\u[\dA-Fa-f]{4}){2,64})"
    r"""\\{0,4}["']?(?:\]|\[\d{1,4}\])?\s{0,2}"""
    r"""(?::=|[=:：＝]>?|%(?:25){0,3}3[Dd]|&\#(?:61|x3[Dd]);|\\{1,4}u003[Dd])\s{0,20}"""
)
# A block of YAML: its lines have the indentation of the first one, or are empty.
_BLOCK = (
    r"[|>][^\n]{0,80}\n(?:[ \t]{0,64}\n){0,8}(?P<indent>[ \t]{1,64})[^\n]*"
    r"(?:\n(?:(?P=indent)[^\n]*|[ \t]{0,64}(?=\n|\Z)))*"
)
# A passphrase has several words: up to a separator, a flag, or the name of the next value.
_MORE_WORDS = (
    r"""(?:(?<![,;&"'|])[ \t]{1,4}(?![-})\]]|[\w.-]{1,64}\\{0,4}["']?\s{0,2}[=:：＝])"""
    r"""[^\s,;&"'|<>]+)*"""
)
# The items of a list in YAML.
_ITEMS = r"-[ \t][^\n]*(?:\n[ \t]{0,64}-[ \t][^\n]*)*"
_VALUE = re.compile(f"{_QUOTED}|{_BLOCK}|{_ITEMS}|{_PLAIN}{_MORE_WORDS}")
# passwords: a, 'b', …
_NEXT_NAME = r"""[\w.-]{1,64}\\{0,4}["']?\s{0,2}[=:：＝]"""
_SEVERAL = re.compile(
    f"(?:{_VALUE.pattern})"
    rf"(?:(?:(?<=,)[ \t]{{1,4}}|[ \t]{{0,4}},[ \t]{{0,4}})(?![-}})\]]|[\\\"']{{0,5}}{_NEXT_NAME})"
    rf"""(?:{_QUOTED}|[^\s;"'|<>]+{_MORE_WORDS}))*"""
)
# What still belongs to a value that begins with a bracket: [a]b
_REST = re.compile(rf"""(?:[^\s,;&"'|<>\])}}\\]|,(?![\s"'\\{{\[(]|{_NEXT_NAME}))*{_MORE_WORDS}""")


def _without_values(text: str, names: re.Pattern[str], value: re.Pattern[str]) -> str:
    """Hide the values behind names of secrets. A value may be such a pair itself."""
    shown, done = [], 0
    for found in names.finditer(text):
        if found.start() < done or not is_secret_name(found[1]):
            continue
        end = _end_of_value(text, found, value)
        if end > found.end():
            shown += [text[done : found.end()], MASK]
            done = end
    return "".join([*shown, text[done:]])


def _end_of_value(text: str, name: re.Match[str], value: re.Pattern[str]) -> int:
    start = name.end()
    if value is not _CONTENT and is_nested(text, start):
        rest = _REST.match(text, end_of_nested(text, start))
        return rest.end() if rest else len(text)
    if value is _VALUE and _PLURAL.search(name[1]):
        value = _SEVERAL
    hidden = value.match(text, start)
    return hidden.end() if hidden else start


_PLURAL = re.compile(r"[^sS][sS]$")
