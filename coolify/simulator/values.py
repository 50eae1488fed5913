"""Checks values that a client sends against the types of a dataclass's fields."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

MOST = 1_000_000_000  # seconds, bytes or pieces
WORDS: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: f"a whole number from 0 to {MOST}",
    float: f"a number from 0 to {MOST}",
    list[str]: "a list of texts",
    dict: "an object",
    NoneType: "null",
}


def check_fields(owner: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError for a value that its field cannot have. Unknown names are not looked at."""
    kinds = get_type_hints(owner)
    for name, value in values.items():
        check_value(name, value, kinds.get(name, Any))


def check_value(name: str, value: Any, kind: Any) -> None:
    choices = (kind,) if kind in WORDS or kind is Any else get_args(kind)
    if not any(fits(value, each) for each in choices):
        raise ValueError(f"{name} must be {' or '.join(WORDS[each] for each in choices)}")


def fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind in (int, float):  # not isinstance: in Python, True is an int
        return type(value) in {int, kind} and 0 <= value <= MOST
    if get_origin(kind) is list:
        return type(value) is list and all(type(each) is str for each in value)
    return type(value) is kind
