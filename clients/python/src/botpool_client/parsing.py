"""Makes dataclasses of JSON: camelCase to snake_case, ISO times to datetimes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]


class Malformed(ValueError):
    """The JSON lacks a field, or has another type there."""


def parse(kind: type[T], item: object) -> T:
    """Unknown fields are ignored, and missing ones get their default."""
    if not isinstance(item, Mapping):
        raise Malformed(f"{kind.__name__} is not an object")
    values = {}
    for name, (key, reader, is_required) in _readers(cast(Hashable, kind)).items():
        if key in item:
            values[name] = reader(item[key])
        elif is_required:
            raise Malformed(f"{kind.__name__} has no {key}")
    return kind(**values)


@cache
def _readers(kind: Any) -> dict[str, tuple[str, Reader, bool]]:
    hints = get_type_hints(kind)
    return {
        each.name: (
            _camel(each.name),
            _reader(hints[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    }


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def _reader(hint: Any) -> Reader:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return _optional(_reader(next(each for each in inner if each is not type(None))))
    if origin is tuple:
        return _tuple_of(_reader(inner[0]))
    if origin is not None:
        return _mapping_to(_reader(inner[1]))
    if hint is datetime:
        return _time
    if hint is Any:
        return lambda value: value
    return _plain(hint) if hint in (str, int, bool) else lambda value: parse(hint, value)


def _plain(kind: type) -> Reader:
    def read(value: object) -> object:
        if type(value) is not kind:
            raise Malformed(f"{value!r} is not of type {kind.__name__}")
        return value

    return read


def _time(value: object) -> datetime:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise Malformed(f"{value!r} is not a time") from None


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _tuple_of(read: Reader) -> Reader:
    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Malformed(f"{value!r} is not a list")
        return tuple(read(each) for each in value)

    return read_all


def _mapping_to(read: Reader) -> Reader:
    def read_all(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Malformed(f"{value!r} is not an object")
        return {str(name): read(each) for name, each in value.items()}

    return read_all
