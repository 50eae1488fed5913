"""The text that shows a slot's state in Coolify's own list of applications.

The `brackets` style is `[BUSY] Bot #123 - 2025-12-16T21:30:00Z`. Coolify's edit form refuses
`[ ] # :`. Teams that use the form choose the `plain` style: `(BUSY) Bot 123 - 20251216T213000Z`.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from enum import StrEnum

MAX_LENGTH = 255
ELLIPSIS = "..."

TAG = re.compile(r"<[^<>]*>")
# Coolify's form allows letters, marks, digits, white space and these.
FORM_PUNCTUATION = frozenset("-_.,!?()'\"+=*@/&")


class DescriptionStyle(StrEnum):
    BRACKETS = "brackets"
    PLAIN = "plain"


BRACKETS = DescriptionStyle.BRACKETS


def describe_deploying(
    *, bot: int | str, since: datetime, style: DescriptionStyle = BRACKETS
) -> str:
    return _with_bot("DEPLOYING", bot=bot, at=since, style=style)


def describe_busy(*, bot: int | str, since: datetime, style: DescriptionStyle = BRACKETS) -> str:
    return _with_bot("BUSY", bot=bot, at=since, style=style)


def describe_stopping(*, since: datetime, style: DescriptionStyle = BRACKETS) -> str:
    return _described("STOPPING", "Container stopping", at=since, style=style)


def describe_idle(*, last_used: datetime | None, style: DescriptionStyle = BRACKETS) -> str:
    if last_used is None:
        return f"{_label('IDLE', style)} Available"
    used = "Last used" if style == DescriptionStyle.PLAIN else "Last used:"
    return f"{_label('IDLE', style)} Available - {used} {_moment(last_used, style)}"


def describe_error(*, cause: str, at: datetime, style: DescriptionStyle = BRACKETS) -> str:
    return _described("ERROR", cause, at=at, style=style)


def names_a_bot(description: str) -> bool:
    return description[1:].startswith(("DEPLOYING", "BUSY"))


def _with_bot(label: str, *, bot: int | str, at: datetime, style: DescriptionStyle) -> str:
    name = f"Bot {bot}" if style == DescriptionStyle.PLAIN else f"Bot #{bot}"
    return _described(label, name, at=at, style=style)


def _described(label: str, text: str, *, at: datetime, style: DescriptionStyle) -> str:
    """Cut the text to what fits, but never the time."""
    start, end = f"{_label(label, style)} ", f" - {_moment(at, style)}"
    clean = _clean(text, style) or "Unknown"
    room = MAX_LENGTH - len(start) - len(end)
    if len(clean) > room:
        clean = clean[: room - len(ELLIPSIS)].rstrip() + ELLIPSIS
    return f"{start}{clean}{end}"


def _label(label: str, style: DescriptionStyle) -> str:
    return f"({label})" if style == DescriptionStyle.PLAIN else f"[{label}]"


def _moment(at: datetime, style: DescriptionStyle) -> str:
    if at.tzinfo is None:
        raise ValueError("a time without a zone would be shown wrong: give it one")
    pattern = "%Y%m%dT%H%M%SZ" if style == DescriptionStyle.PLAIN else "%Y-%m-%dT%H:%M:%SZ"
    return at.astimezone(UTC).strftime(pattern)


def _clean(text: str, style: DescriptionStyle) -> str:
    # Coolify strips tags, and everything after a lone `<`. Text that it changes would never match
    # what we wrote.
    without_tags = TAG.sub(" ", text).replace("<", " ").replace(">", " ")
    allowed = _passes_form if style == DescriptionStyle.PLAIN else _is_visible
    return " ".join("".join(c if allowed(c) else " " for c in without_tags).split())


def _is_visible(character: str) -> bool:
    # Category C: control and format characters (such as text direction), lone surrogates.
    return not unicodedata.category(character).startswith("C")


def _passes_form(character: str) -> bool:
    return character in FORM_PUNCTUATION or unicodedata.category(character)[0] in "LMN"
