"""Parse untrusted JSON bodies."""

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from django.http import HttpRequest
from ninja.parser import Parser

from api.problems import Problem, wrong_fields
from slots.tokens import Assignment

DEEPEST = 20
MOST_FIELDS = 100  # far more than any call takes; each unknown one costs time and an error
MOST_DIGITS = 64 * 1024  # of all large numbers with an exponent, once it is written out
# PostgreSQL cannot store NUL characters or lone surrogates.
CANNOT_BE_STORED = re.compile("[\x00\ud800-\udfff]")


class StrictParser(Parser):
    """Accepts strict JSON that PostgreSQL can store. It is lenient with bots: a refused bot would
    keep its slot (see StatusReport)."""

    def parse_body(self, request: HttpRequest) -> Any:
        if isinstance(getattr(request, "auth", None), Assignment):
            return _parse_report(_readable(request.body))
        _refuse_other_types(request)
        body = _parse(request.body)
        _check(body)
        return body


def _refuse_other_types(request: HttpRequest) -> None:
    kind = request.content_type or ""
    if request.body and kind != "application/json" and not kind.endswith("+json"):
        sent = f"not {kind[:100]}" if kind else "with its Content-Type"
        raise Problem(415, f"The body must be JSON, {sent}. Send `Content-Type: application/json`.")


def _parse(body: bytes | str, **how: Any) -> Any:
    try:
        return json.loads(body, **(how or _strict()))
    except RecursionError:
        raise Problem(400, "The body is nested too deeply.") from None
    except ValueError as error:
        raise Problem(400, f"The body is not valid JSON: {_without_content(error)}.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class _Numbers:
    """Reads the numbers of one body.

    PostgreSQL returns 1e300 with all its digits, so the limit on size must count them. Five
    characters become 300: without a limit of its own, a body of 1 MB would take 60 MB.
    """

    def __init__(self) -> None:
        self._digits_left = MOST_DIGITS

    def read(self, text: str) -> int | float:
        number = float(text)
        if math.isinf(number):
            raise ValueError("a number is out of range")
        if abs(number) < 1e16:
            return number
        self._digits_left -= int(math.log10(abs(number)))
        if self._digits_left < 0:
            why = f"Its numbers have more than {MOST_DIGITS} digits in total."
            raise wrong_fields({"body": [why]})
        return int(Decimal(text))


def _or_null(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        try:
            return read(text)
        except (ValueError, Problem):
            return None

    return number


def _strict() -> dict[str, Any]:
    return {"parse_constant": _refuse_constant, "parse_float": _Numbers().read}


def _lenient() -> dict[str, Any]:
    return {
        "strict": False,  # control characters in strings
        "parse_constant": lambda name: None,
        "parse_float": _or_null(_Numbers().read),
        "parse_int": _or_null(int),
    }


def _readable(body: bytes) -> str:
    """A text that was cut at a byte, or is of another encoding, loses characters only."""
    encoding = json.detect_encoding(body)
    try:
        text = body.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        text = body.decode(encoding, "replace")
    return text.lstrip("\ufeff")


def _parse_report(text: str) -> Any:
    try:
        return json.loads(text, **_lenient())
    except (RecursionError, ValueError):
        return _parse(_without_depths(text), **_lenient())  # says what else is wrong


_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


def _without_depths(text: str) -> str:
    """With null for what is nested more than DEEPEST levels deep, which is ignored."""
    kept, depth, done = [], 0, 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in ("[", "{"):
            depth += 1
            if depth == DEEPEST + 1:
                kept += [text[done : found.start()], "null"]
                done = len(text)
        elif found[0] in ("]", "}"):
            if depth == DEEPEST + 1:
                done = found.end()
            depth -= 1
    return "".join([*kept, text[done:]])


def _without_content(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(error).split(";")[0]


def _check(body: Any) -> None:
    fields = body.items() if isinstance(body, dict) else [("body", body)]
    if len(fields) > MOST_FIELDS:
        why = f"Has {len(fields)} fields; at most {MOST_FIELDS} are allowed."
        raise wrong_fields({"body": [why]})
    errors = {}
    for name, value in fields:
        why = _why_refused(name, depth=0) or _why_refused(value, depth=0)
        if why:
            errors[CANNOT_BE_STORED.sub("\ufffd", name)] = [why]
    if errors:
        raise wrong_fields(errors)


def _why_refused(value: Any, *, depth: int) -> str:
    if isinstance(value, str):
        bad = CANNOT_BE_STORED.search(value)
        return "Must not contain NUL characters or lone surrogates." if bad else ""
    if not isinstance(value, dict | list):
        return ""
    if depth == DEEPEST:
        return f"Must not be nested more than {DEEPEST} levels deep."
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    return next(filter(None, (_why_refused(item, depth=depth + 1) for item in inner)), "")
