"""Read JSON that may contain more, or less, than documented."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from coolify.client.errors import MalformedAnswer

LARGEST_NUMBER = 2**31
LONGEST_OFFSET = timedelta(days=36_500)
Item = dict[str, Any]
Resource = TypeVar("Resource")


def parse_list(answer: object, parse: Callable[[Item], Resource], *, what: str) -> list[Resource]:
    if not isinstance(answer, list):
        raise MalformedAnswer(
            f"Coolify's list of {what} is not a list but {_kind_of(answer)}. "
            "It was ignored; the next pass asks again."
        )
    return [parse_object(item, parse, what=what) for item in answer]


def parse_indexed_list(
    answer: object, parse: Callable[[Item], Resource], *, what: str
) -> list[Resource]:
    """Accept a list, or an object keyed by index: PHP writes a filtered array that way."""
    if isinstance(answer, dict) and answer and all(key.isdecimal() for key in answer):
        answer = list(answer.values())
    return parse_list(answer, parse, what=what)


def parse_object(answer: object, parse: Callable[[Item], Resource], *, what: str) -> Resource:
    if not isinstance(answer, dict):
        raise MalformedAnswer(
            f"Coolify's answer about {what} is {_kind_of(answer)}, not an object."
        )
    return parse(answer)


def _kind_of(answer: object) -> str:
    if isinstance(answer, dict):
        return f"an object with {', '.join(sorted(map(str, answer))[:5]) or 'no fields'}"
    return f"a {type(answer).__name__}"


def required(item: Item, field: str) -> str:
    value = item.get(field)
    if not isinstance(value, str) or not value:
        raise MalformedAnswer(
            f"Coolify's answer lacks the field {field} (it has {', '.join(sorted(item)[:8])})."
        )
    return value


def text(item: Item, field: str) -> str | None:
    value = item.get(field)
    return None if value is None or isinstance(value, dict | list) else str(value)


def number(item: Item, field: str) -> int | None:
    """None for a number that no field of Coolify has, and no column of ours can hold."""
    try:
        value = int(item[field])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return value if abs(value) < LARGEST_NUMBER else None


def flag(item: Item, field: str) -> bool | None:
    value = item.get(field)
    return bool(value) if isinstance(value, bool | int) else None


def subobject(item: Item, field: str) -> Item:
    value = item.get(field)
    return value if isinstance(value, dict) else {}


def time(item: Item, field: str) -> datetime | None:
    value = item.get(field)
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    # Coolify writes UTC, on some endpoints without saying so.
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def time_from_now(header: str) -> timedelta | None:
    """How far the time in a header is from this host's; None if it says no time of this age."""
    try:
        moment = parsedate_to_datetime(header)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        distance = moment - datetime.now(UTC)
    except (ValueError, OverflowError):
        return None
    return distance if abs(distance) < LONGEST_OFFSET else None
