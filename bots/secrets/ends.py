"""Where a list, an object or an escaped string ends that stands inside a text, in linear time."""

import re

# "(?<!…)": of a run of backslashes only its first one begins a search.
_SIGN = re.compile(r"(?<!\\)(\\*)([\"'])|[\[\](){}]")
_CLOSING = {"[": "]", "{": "}", "(": ")"}

_BEGIN = re.compile(r"[\[({]|\\+[\"']")


def is_nested(text: str, start: int) -> bool:
    """Whether a list, an object or an escaped string begins there."""
    return bool(_BEGIN.match(text, start))


def end_of_nested(text: str, start: int) -> int:
    """Behind the bracket or quotation mark that closes it; without one, the end of the text."""
    open_brackets: list[str] = []
    quote, escapes = "", 0
    for found in _SIGN.finditer(text, start):
        sign, slashes = found[2] or found[0], len(found[1] or "")
        if quote:
            if sign == quote and _closes(slashes, escapes):
                quote = ""
        elif found[2]:
            if not _is_apostrophe(text, found):
                quote, escapes = sign, slashes
        elif sign in _CLOSING:
            open_brackets.append(_CLOSING[sign])
        elif open_brackets and open_brackets[-1] == sign:
            open_brackets.pop()
        if not open_brackets and not quote:
            return found.end()
    return len(text)


def _closes(slashes: int, escapes: int) -> bool:
    r"""In JSON inside of JSON, `\"` closes what `\"` opened, and `\\\"` is a quotation mark in it.
    Fewer backslashes close a string around it, too."""
    return slashes < escapes or slashes % (2 * (escapes + 1)) == escapes


def _is_apostrophe(text: str, found: re.Match[str]) -> bool:
    return found[0] == "'" and found.start() > 0 and text[found.start() - 1].isalnum()
