"""What is wrong with a field, in words for people instead of the validator's."""

import re
from collections.abc import Callable, Mapping
from typing import Any

_EXPLAINED: dict[str, str] = {}


def explained(pattern: str, words: str) -> str:
    """Return the pattern. A value that does not match it is refused with these words."""
    _EXPLAINED[pattern] = words
    return pattern


def words_for(error: Mapping[str, Any]) -> str:
    """One sentence about an error of pydantic."""
    kind, context = error["type"], error.get("ctx") or {}
    if kind in _WORDS:
        return _WORDS[kind]
    if kind in _WITH_LIMIT:
        return _WITH_LIMIT[kind](context)
    return _sentence(error["msg"])


_WORDS = {
    "extra_forbidden": "Unknown field.",
    "missing": "This is required.",
    "model_type": "The body must be a JSON object.",
    "model_attributes_type": "The body must be a JSON object.",
    "dict_type": "Must be a JSON object.",
    "string_type": "Must be a string.",
    "int_type": "Must be a whole number.",
    "int_parsing": "Must be a whole number.",
    "int_from_float": "Must be a whole number.",
    "int_parsing_size": "The number is too large.",
    "bool_type": "Must be true or false.",
}

_WITH_LIMIT: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than_equal": lambda limit: f"Must be at least {limit['ge']}.",
    "less_than_equal": lambda limit: f"Must be at most {limit['le']}.",
    "string_too_short": lambda limit: (
        "Must not be empty."
        if limit["min_length"] == 1
        else f"Must have at least {limit['min_length']} characters."
    ),
    "string_too_long": lambda limit: f"Must have at most {limit['max_length']} characters.",
    "string_pattern_mismatch": lambda limit: _EXPLAINED.get(
        limit["pattern"], "Has characters that are not allowed."
    ),
    "enum": lambda choice: _one_of(choice["expected"]),
    "literal_error": lambda choice: _one_of(choice["expected"]),
}


_QUOTED = "'([^']*)'"


def _one_of(expected: str) -> str:
    """Of the form "'a', 'b' or 'c'"."""
    return f"Must be one of: {', '.join(re.findall(_QUOTED, expected))}."


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text if text.endswith(".") else f"{text}."
